"""How shapes of manifests are checked: which keys they know, what a typo probably meant, and all problems at once.

A closed shape refuses every key it does not know. An open one is a part of Kubernetes of which we use a few fields: it
takes any key, except those that look like a misspelling of one we use. A key without a value is a key left out.
"""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from sterna.wire.manifests.field_uses import fields_beside
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.problems import problems_of

_LOOKED_AT_MAX = 200  # keys of one mapping: no author misspells more, and looking costs
_LENGTH_MAX = 40  # of a key that may be a misspelling
_LIKENESS = 0.8  # "comand" and "limit" are above it, "cmd" is not: in open shapes it decides whether a key is wrong
_HINT = 0.6  # in closed ones it is wrong anyway
_ROUNDS_MAX = 16  # a document that is wrong on more levels is not examined further

ShapeT = TypeVar("ShapeT", bound="Shape")


class Shape(BaseModel):
    """Closed: keys are camelCase, and nothing is converted behind the author's back."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="ignore")

    keys: ClassVar[tuple[str, ...]] = ()  # as a file spells them
    foreign: ClassVar[frozenset[str]] = frozenset()  # of open shapes: what Kubernetes knows here and we do not use
    is_open: ClassVar[bool] = False
    any_case: ClassVar[bool] = False  # "worker" is Worker

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.keys = tuple(field.alias or name for name, field in cls.model_fields.items())
        cls.foreign |= fields_beside(cls.__name__, cls.keys)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value  # the validation that follows reports what it should be
        if cls.any_case:
            value = _in_case(value, cls.keys)
        unknown = [key for key in value if key not in cls.keys and key not in cls.foreign]
        refuse_keys(unknown, cls.keys, all_of_them=not cls.is_open)
        return {key: child for key, child in value.items() if child is not None}


class OpenShape(Shape):
    """What it does not read is kept beside (`model_extra`), so that it can be said what becomes of it."""

    model_config = ConfigDict(extra="allow")

    is_open = True


def words(text: str) -> frozenset[str]:
    """A long list of names, written shortly."""
    return frozenset(text.split())


def refuse_keys(unknown: list[str], known: Iterable[str], *, all_of_them: bool) -> None:
    """Raises for those that are wrong here: all, or those that look like a known one."""
    known = tuple(known)
    wrong: dict[str, str] = {}
    for key in unknown[:_LOOKED_AT_MAX]:
        likely = meant(key, known, likeness=_HINT if all_of_them else _LIKENESS)
        if key == "<<":
            wrong[key] = "the keys themselves: a merge is not part of YAML 1.2 (an alias is)"
        elif likely:
            wrong[key] = f'a key that is known here: did you mean "{likely}"?'
        elif all_of_them:
            wrong[key] = f"one of the keys that are known here: {', '.join(sorted(known))}"
    if wrong:
        raise PydanticCustomError("wrong_keys", "known keys", {"wrong": wrong})


def examined(shape: type[ShapeT], document: Any, findings: Findings) -> ShapeT | None:
    """The document in its shape, without the parts that are wrong; None if too little is left.

    What is wrong is reported and left out, and the rest is looked at again, until all has been seen. So an author who
    mistyped a key on one line hears about the impossible number on the next as well.
    """
    for round_ in range(_ROUNDS_MAX):
        try:
            return shape.model_validate(document)
        except ValidationError as error:
            document = _copied(document) if round_ == 0 else document  # aliases share what they stand for
            paths = _reported(error, findings)
            places = [_place(document, path) for path in paths]  # all before the first is taken away
            for place in places:
                if place is None:
                    return None
                holder, key = place
                holder.pop(key, None)
    return None


def _reported(error: ValidationError, findings: Findings) -> list[Path]:
    """Puts everything in `error` among the findings, and gives back what is to be left out."""
    paths: list[Path] = []
    for details, problem in zip(error.errors(include_url=False), problems_of(error), strict=True):
        path: Path = details["loc"]
        wrong: dict[str, str] = details.get("ctx", {}).get("wrong", {})
        for key, expected in wrong.items():
            findings.unread((*path, key), key, expected)
            paths.append((*path, key))
        if not wrong:
            findings.unread(path, problem.value, _expected(details, problem.expected))
            paths.append(path)
    return paths


def _expected(details: Any, otherwise: str) -> str:
    value = details["input"]
    match details["type"]:
        case "string_type" if isinstance(value, bool | int | float):
            return f'text: write "{json.dumps(value)}" with the quotes'
        case "int_type" if isinstance(value, str) and value.isdecimal():
            return f"a whole number: write {value[:20]} without quotes"
        case "model_type" | "dict_type":
            return "keys with values"
        case "too_long":
            return f"at most {details['ctx']['max_length']} in the list"
    return otherwise


def meant(key: str, known: tuple[str, ...], *, likeness: float = _LIKENESS) -> str | None:
    """Which of the known names this one probably is."""
    if len(key) > _LENGTH_MAX:
        return None
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(key.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[found[0]] if found else None


def _in_case(value: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    by_lower = {key.lower(): key for key in keys}
    renamed: dict[str, Any] = {}
    for key, child in value.items():
        name = by_lower.get(key.lower(), key)
        if name in renamed:
            raise PydanticCustomError("wrong_keys", "each once", {"wrong": {key: f"{name} once: it is written twice"}})
        renamed[name] = child
    return renamed


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items()}
    return [_copied(child) for child in value] if isinstance(value, list) else value


def _place(document: Any, path: Path) -> tuple[dict[str, Any], str] | None:
    """The mapping and the key that hold the value at `path`, or the smallest thing around it. None: the whole document.

    An element of a list is not taken out by itself: those after it would change their places.
    """
    place: tuple[dict[str, Any], str] | None = None
    here = document
    for part in path:
        if isinstance(here, dict) and (key := _as_written(here, part)) is not None:
            place = (here, key)
            here = here[key]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            break
    return place


def _as_written(mapping: dict[str, Any], key: str | int) -> str | None:
    if not isinstance(key, str) or key in mapping:
        return key if isinstance(key, str) else None
    return next((name for name in mapping if name.lower() == key.lower()), None)
