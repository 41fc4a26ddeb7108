"""Options as frozen dataclasses whose fields carry their own documentation, and how text becomes one.

Of policies, rebalancers and performance models alike: `--set key=value`, a configuration file and the reference page
all read the same fields.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

from sterna.model.errors import InvalidRequest

T = TypeVar("T")


def option(default: Any, doc: str, *, at_least: float | None = None, at_most: float | None = None) -> Any:
    """A field of an options dataclass. The bounds are for numbers, each element of a tuple included."""
    return field(default=default, metadata={"doc": doc, "at_least": at_least, "at_most": at_most})


@dataclass(frozen=True, slots=True)
class NoOptions:
    """For whatever has nothing to set."""


def parse_options(options: type[T], settings: Mapping[str, str], *, of: str) -> T:
    """Build `options` from text. Unknown names and bad values say what would do."""
    known = {entry.name.replace("_", "-"): entry for entry in fields(options)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, text in settings.items():
        entry = known.get(name.replace("_", "-"))
        if entry is None:
            offered = ", ".join(sorted(known)) or "no options"
            raise InvalidRequest(field=f"{of}: option", value=name, expected=f"one of: {offered}")
        values[entry.name] = _value(entry, text, of=of)
    return options(**values)


def shown(value: Any) -> str:
    """An option's value as it would be typed after `--set key=`."""
    if isinstance(value, tuple):
        return ",".join(shown(part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _value(entry: Field[Any], text: str, *, of: str) -> Any:
    name = f"{of}: {entry.name.replace('_', '-')}"
    default = entry.default
    try:
        value = _parse_like(default, text)
    except (KeyError, ValueError):
        raise InvalidRequest(field=name, value=text, expected=_expected(default)) from None
    least, most = entry.metadata.get("at_least"), entry.metadata.get("at_most")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and math.isnan(number):
            raise InvalidRequest(field=name, value=text, expected="a number, not NaN")
        if least is not None and number < least:
            raise InvalidRequest(field=name, value=text, expected=f"at least {least:g}")
        if most is not None and number > most:
            raise InvalidRequest(field=name, value=text, expected=f"at most {most:g}")
    return value


def _parse_like(default: Any, text: str) -> Any:
    if isinstance(default, bool):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
    if isinstance(default, StrEnum):
        return type(default)(text)
    if isinstance(default, tuple):
        return tuple(float(part) for part in text.split(",") if part.strip())
    parser: Callable[[str], Any] = type(default)
    return parser(text)


def _expected(default: Any) -> str:
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, StrEnum):
        return "one of: " + ", ".join(type(default))
    if isinstance(default, tuple):
        return "numbers separated by commas"
    return {int: "a whole number", float: "a number"}.get(type(default), "text")
