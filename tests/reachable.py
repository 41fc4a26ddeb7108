"""Everything that can be reached from an object: for tests of what is still held of things that are gone."""

import gc
from collections.abc import Collection, Iterator, Mapping
from types import AsyncGeneratorType, BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

Bounded = Mapping[Any, str]  # by class: attributes that are bounded by number, and not looked into
_PASSED_OVER = (
    ModuleType,
    type,
    FunctionType,
    BuiltinFunctionType,
    AsyncGeneratorType,
)  # the last: a watch's last line


def mentions(found: object, texts: Collection[str], *, but: object = None, bounded: Bounded) -> list[str]:
    """Where strings with such a text can be reached from here, by classes and attributes on the way; not by `but`."""
    hits: set[str] = set()
    seen, line = {id(but)}, [(found, type(found).__name__)]
    while line:
        here, path = line.pop()
        if id(here) in seen or isinstance(here, _PASSED_OVER):
            continue
        seen.add(id(here))
        if isinstance(here, str | bytes):
            if any(text in str(here) for text in texts):
                hits.add(path)
            continue
        line += [(part, f"{path} > {name}"[-200:]) for name, part in _parts(here, bounded)]
    return sorted(hits)


def _parts(here: Any, bounded: Bounded) -> Iterator[tuple[str, object]]:
    if isinstance(here, dict):
        for key, value in here.items():
            yield "key", key
            yield "value", value
        return
    hidden = {
        id(getattr(here, name)) for kind, names in bounded.items() if isinstance(here, kind) for name in names.split()
    }
    attributes = getattr(here, "__dict__", {}) if type(here).__module__.startswith("sterna") else {}
    for part in gc.get_referents(here):
        if part is attributes:
            yield from ((name, value) for name, value in attributes.items() if id(value) not in hidden)
        elif id(part) not in hidden:
            yield type(part).__name__, part
