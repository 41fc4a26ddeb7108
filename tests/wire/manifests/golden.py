"""Workloads as text: everything that is not the default, so that a change of reading shows as a change of a file."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sterna.model.resources import Resources
from sterna.model.workload import Workload


def as_text(workload: Workload) -> str:
    return "\n".join(_lines(workload)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    for field in fields(value):
        child = getattr(value, field.name)
        if field.default is not MISSING and child == field.default:
            continue
        if is_dataclass(child):
            yield f"{field.name}:"
            yield from (f"  {line}" for line in _lines(child))
        elif field.name == "roles":
            for role in child:
                yield f"{role.role}:"
                yield from (f"  {line}" for line in _lines(role))
        else:
            yield f"{field.name}: {_shown(child)}"


def _shown(value: Any) -> str:
    if isinstance(value, Resources):
        return ", ".join(f"{amount} {name}" for name, amount in value._asdict().items() if amount)
    return json.dumps(value)
