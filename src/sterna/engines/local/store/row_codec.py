"""Rows as JSON and back, by their types: a field that is added later with a default is simply absent in older rows.

Only for values that this engine wrote itself; what others write is read by `wire/` and `protocol/`.
"""

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_text(value: object) -> str:
    return json.dumps(plain(value), separators=(",", ":"))


def from_text(kind: type[T], text: str) -> T:
    made: T = made_of(kind, json.loads(text))
    return made


def plain(value: Any) -> Any:
    """The value as JSON can say it. Records become objects, tuples lists."""
    if isinstance(value, str | int | float) or value is None:  # a StrEnum is a str
        return value
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [plain(part) for part in value]
        return {name: plain(part) for name, part in zip(names, value, strict=True)}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value]


def made_of(kind: Any, data: Any) -> Any:
    """A value of this type from what `plain` made of one."""
    if isinstance(kind, NewType):
        kind = kind.__supertype__
    origin = get_origin(kind)
    if origin is Union or origin is types.UnionType:
        inner = [part for part in get_args(kind) if part is not type(None)]
        return None if data is None else made_of(inner[0], data)
    if origin is tuple:
        parts = get_args(kind)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return tuple([made_of(parts[0], item) for item in data])
        return tuple([made_of(part, item) for part, item in zip(parts, data, strict=True)])
    if origin is not None and issubclass(origin, Mapping):
        value_kind = get_args(kind)[1]
        return {key: made_of(value_kind, item) for key, item in data.items()}
    if kind is float:
        return float(data)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(data)
    if isinstance(kind, type) and (hasattr(kind, "_fields") or is_dataclass(kind)):
        hints = _hints(kind)
        return kind(**{name: made_of(hints[name], item) for name, item in data.items() if name in hints})
    return data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
