"""What is wrong with a document, said so that its author can put it right: the path, the value, what would do.

All problems are found in one go and the first few are shown; a file that is wrong in one place is often wrong in many.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from sterna.model.errors import InvalidRequest

SHOWN_MAX = 5


class Problem(NamedTuple):
    path: str  # jobs[3].spec.workers.min
    value: object
    expected: str


class InvalidDocument(InvalidRequest):
    """One or more problems of a document. `field`, `value` and `expected` are those of the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(field=first.path, value=first.value, expected=first.expected)
        self.problems = tuple(problems)
        lines = [str(InvalidRequest(field=p.path, value=p.value, expected=p.expected)) for p in problems[:SHOWN_MAX]]
        if len(problems) > SHOWN_MAX:
            lines.append(f"... and {len(problems) - SHOWN_MAX} more problems")
        self.args = ("\n".join(lines),)


class Body(BaseModel):
    """Base of all shapes: camelCase keys, no conversions behind the author's back, unknown keys are errors."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="forbid")

    _keys: ClassVar[frozenset[str]]  # as a file spells them

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls._keys = frozenset(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, value: Any) -> Any:
        """Before pydantic's own check, because ours can say which keys there are."""
        if isinstance(value, dict) and not value.keys() <= cls._keys:
            about = {"key": min(value.keys() - cls._keys, key=str), "known": ", ".join(sorted(cls._keys))}
            raise PydanticCustomError("unknown_key", "one of: {known}", about)
        return value


def problems_of(error: ValidationError) -> list[Problem]:
    return [_problem(details) for details in error.errors(include_url=False)]


def path_of(parts: Iterable[int | str]) -> str:
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")


def _problem(details: Any) -> Problem:
    path, about = path_of(details["loc"]) or "document", details.get("ctx", {})
    if details["type"] == "unknown_key":
        return Problem(path_of((*details["loc"], str(about["key"]))) or path, about["key"], details["msg"])
    words = _WORDS.get(details["type"])
    expected = words.format(**about) if words else details["msg"].removeprefix("Input should be ")
    return Problem(path, None if details["type"] == "missing" else details["input"], expected)


_WORDS = {  # the library speaks of its own types; the author of a file knows only the file
    "missing": "a value: this key is required",
    "model_type": "keys with values, as the schema says",
    "dict_type": "keys with values",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} in the list",
    "string_too_short": "at least {min_length} character",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "text without control characters",
}
