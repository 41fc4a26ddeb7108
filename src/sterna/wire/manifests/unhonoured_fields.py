"""What a manifest writes and Sterna does not do: said by its path, or refused, as the line of the field says.

Lines are in `field_uses.py`. A resource that is not counted has no line of its own: its names are the cluster's.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sterna.wire.manifests.field_uses import FIELD_USES, FieldUse, Treatment
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import RESOURCES, ContainerResources
from sterna.wire.manifests.shapes import Shape

_NOT_COUNTED = "not counted: a node that has too little of it refuses the pod, and others are tried"


class _Written(NamedTuple):
    path: Path
    value: Any
    use: FieldUse


def say_unhonoured(job: Shape, findings: Findings) -> None:
    """Warnings and problems about all that `job` writes."""
    for path, value, use in _written(job, type(job).__name__, ()):
        if use.treatment is Treatment.REFUSED and value:
            findings.wrong(path, _short(value), use.words)
        elif (use.said or use.treatment is Treatment.IGNORED) and use.said_of(value):
            findings.warn(path, use.words)


def _written(found: Any, table: str, path: Path) -> Iterator[_Written]:
    """Every field of it that has a line, and those further in."""
    uses = FIELD_USES.get(table, {})
    for key, value in _fields(found):
        use = uses.get(key)
        if use is not None:
            yield _Written((*path, key), value, use)
        yield from _inside(value, use.inside if use is not None else "", (*path, key))
    if isinstance(found, ContainerResources):
        yield from _uncounted(found, path)


def _inside(value: Any, table: str, path: Path) -> Iterator[_Written]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _inside(each, table, (*path, number))
    elif isinstance(value, Shape):
        yield from _written(value, type(value).__name__, path)
    elif isinstance(value, dict) and table:
        yield from _written(value, table, path)


def _fields(found: Any) -> Iterator[tuple[str, Any]]:
    """As the file spells them: what a shape reads and was given, and what stands beside it."""
    if isinstance(found, Shape):
        for name, field in type(found).model_fields.items():
            if name in found.model_fields_set:
                yield field.alias or name, getattr(found, name)
        yield from (found.model_extra or {}).items()
    elif isinstance(found, dict):
        yield from found.items()


def _uncounted(resources: ContainerResources, path: Path) -> Iterator[_Written]:
    use = FieldUse(Treatment.IGNORED, _NOT_COUNTED, said_of=lambda _: True)
    amounts: Mapping[str, Mapping[str, Any]] = {"limits": resources.limits, "requests": resources.requests}
    told: set[str] = set()
    for key, named in amounts.items():
        for name in named:
            if name not in RESOURCES and name not in told:
                told.add(name)
                yield _Written((*path, key, name), named[name], use)


def _short(value: Any) -> Any:
    """A list or map is long, and its path says where it is."""
    return type(value).__name__ if isinstance(value, list | dict) else value
