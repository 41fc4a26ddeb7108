"""Text from outside becomes plain values here, within limits: size, depth, number of values, aliases.

JSON and YAML come out alike: dicts with text keys, lists, text, finite numbers, booleans, None. A key that stands
twice is refused, because its author may have meant either of the two. What the values mean is for the caller.
"""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.wire.yaml_events import value_of_yaml

MIB = 1 << 20
BODY_BYTES_MAX = MIB
SNAPSHOT_BYTES_MAX = 16 * MIB
DEPTH_MAX = 64
VALUES_PER_MIB_MAX = 250_000  # even the shortest of values takes some ten times its text in memory
INTEGER_MAX = (1 << 63) - 1

Document = Any  # what JSON can say; every reader checks the shape at once


def read_document(
    text: str | bytes,
    *,
    name: str,
    bytes_max: int = BODY_BYTES_MAX,
    values_max: int | None = None,
    first_line: int = 1,
) -> Document:
    """The value that `text` says, as JSON if it opens with a bracket and as YAML otherwise.

    `values_max` left out goes by `bytes_max`. `first_line` is where `text` begins in its author's document:
    errors name lines of that document.
    """
    decoded = decoded_text(text, name=name, bytes_max=bytes_max)
    values_max = max(1, bytes_max // MIB) * VALUES_PER_MIB_MAX if values_max is None else values_max
    if decoded.lstrip()[:1] in ("{", "["):
        value = _value_of_json(decoded, name, values_max, first_line)
    else:
        value = value_of_yaml(decoded, name=name, values_max=values_max, depth_max=DEPTH_MAX, first_line=first_line)
    check_document(value, name=name)
    return value


def decoded_text(text: str | bytes, *, name: str, bytes_max: int = BODY_BYTES_MAX) -> str:
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        size = len(text) if isinstance(text, bytes) else len(text.encode())
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(field=name, value=error.reason, expected="UTF-8 text") from None
    if size > bytes_max:
        raise InvalidRequest(field=name, value=f"{size} bytes", expected=f"at most {bytes_max} bytes")
    return decoded


def _value_of_json(text: str, name: str, values_max: int, first_line: int) -> Document:
    if text.count(",") + text.count("[") + text.count("{") > values_max:  # a bound that needs no parsing
        raise InvalidRequest(field=name, value="too many values", expected=f"at most {values_max} commas and brackets")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"{name}: line {error.lineno - 1 + first_line}, column {error.colno}"
        found = text[error.pos : error.pos + 20] or "the end"
        raise InvalidRequest(field=where, value=found, expected=f"JSON ({error.msg.lower()})") from None
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidRequest(field=name, value=str(error), expected="numbers of reasonable size") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidRequest(field="a key", value=key, expected="each key once in its object")
            seen.add(key)
    return made


def check_document(value: Document, *, name: str) -> None:
    """Depth and scalars, level by level: most documents are wide and flat."""
    level: list[Any] = [[value]]
    for _ in range(DEPTH_MAX + 1):
        deeper: list[Any] = []
        for container in level:
            children = container
            if type(container) is dict:
                children = container.values()
                if not ("".join(container).isascii() or all(map(_sound, container))):
                    raise _unsound(value, name)
            for child in children:
                kind = type(child)
                if kind is dict or kind is list:
                    deeper.append(child)
                elif not (kind is str and child.isascii()) and not _sound(child):
                    raise _unsound(value, name)
        if not deeper:
            return
        level = deeper
    raise _too_deep(name)


def _sound(scalar: Any) -> bool:
    kind = type(scalar)
    if kind is str:
        return scalar.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in scalar)
    if kind is float:
        return isfinite(scalar)
    return kind is not int or -INTEGER_MAX <= scalar <= INTEGER_MAX


def _unsound(document: Document, name: str) -> InvalidRequest:
    """The slow way, for the error message only."""
    path, value = next((path, value) for path, value in _scalars(document, "") if not _sound(value))
    expected = "text that UTF-8 can say" if isinstance(value, str) else f"a finite number up to {INTEGER_MAX}"
    return InvalidRequest(field=path.removeprefix(".") or name, value=value, expected=expected)


def _scalars(value: Document, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield path, key
            yield from _scalars(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _scalars(child, f"{path}[{index}]")
    else:
        yield path, value


def _too_deep(name: str) -> InvalidRequest:
    return InvalidRequest(field=name, value="too deeply nested", expected=f"at most {DEPTH_MAX} levels")
