"""Definitions as text: every value written out, keys in the order in which people look for them."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from sterna.wire.crds.definitions import Definition

_HEAD = "# Written by `sterna crds`. Change the shapes in wire/ instead, and run `make crds`.\n"


def yaml_of(definitions: Sequence[Definition]) -> str:
    return _HEAD + "---\n".join(
        yaml.dump(one, Dumper=_WrittenOut, sort_keys=False, width=120, allow_unicode=True) for one in definitions
    )


def json_of(definitions: Sequence[Definition]) -> str:
    """One object, or a list of them as kubectl takes it."""
    whole = definitions[0] if len(definitions) == 1 else {"apiVersion": "v1", "kind": "List", "items": [*definitions]}
    return json.dumps(whole, indent=2) + "\n"


def file_name(definition: Definition) -> str:
    """As `deploy/crds/` calls it, without what it ends in."""
    spec = definition["spec"]
    return f"{spec['group']}_{spec['names']['plural']}"


class _WrittenOut(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # two versions share one schema, and a reader should not have to look for it
