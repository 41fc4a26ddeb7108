"""Templates as kubectl has them: `{.name}`, `{range .items[*]}{.name}{"\\n"}{end}`, `{.items[?(@.gpus>1)].name}`.

What selects nothing prints nothing, as kubectl does. Text is read once into a `Template`, so that a mistake is told
before anything is asked.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sterna.model.errors import InvalidRequest

_STEP = re.compile(
    r"""(?P<deep>\.\.)?(?:
        \.?(?P<name>[A-Za-z0-9_$][\w$-]*|\*)
      | \.?\[(?P<index>-?\d+|\*)\]
      | \.?\[(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]
      | \.?\[\?\(\s*@(?P<path>[^=!<>()\s]*)\s*(?:(?P<test>==|!=|<=|>=|<|>)\s*(?P<value>[^)]*?)\s*)?\)\]
    )""",
    re.VERBOSE,
)
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXPECTED = 'a path such as .phase or {.items[*].name}, {range ...} with {end}, or {"text"}'
_DEPTH_MAX = 20

Step = Callable[[Any], Iterator[Any]]


class Path(NamedTuple):
    """Steps from a value to what it selects."""

    steps: tuple[Step, ...]

    def found(self, value: Any) -> list[Any]:
        values = [value]
        for step in self.steps:
            values = [found for each in values for found in step(each)]
        return values


class _Range(NamedTuple):
    path: Path
    parts: "tuple[str | Path | _Range, ...]"


class Template(NamedTuple):
    parts: tuple[str | Path | _Range, ...]

    def filled(self, value: Any) -> str:
        return "".join(_filled(self.parts, value))


def read_path(text: str, *, field: str) -> Path:
    """A single path; the braces and the first dot may be left out, as for kubectl's --sort-by."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    return _path(inner, text, field)


def read_template(text: str, *, field: str) -> Template:
    if "{" not in text:
        return Template((read_path(text, field=field),))
    pieces = iter(_pieces(text, field))
    return Template(_parts(pieces, text, field, inside=0))


def as_text(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _filled(parts: tuple[str | Path | _Range, ...], value: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Path):
            yield " ".join(as_text(found) for found in part.found(value) if found is not None)
        else:
            for each in part.path.found(value):
                yield from _filled(part.parts, each)


def _pieces(text: str, field: str) -> Iterator[tuple[bool, str]]:
    """Plain text, and what stands between braces (True). Braces between quotes are text of the expression."""
    place = 0
    for found in re.finditer(r"""\{((?:"(?:\\.|[^"\\])*"|'[^']*'|[^{}"'])*)\}""", text):
        if found.start() > place:
            yield False, text[place : found.start()]
        yield True, found.group(1).strip()
        place = found.end()
    rest = text[place:]
    if "{" in rest or "}" in rest:
        raise InvalidRequest(field=field, value=text, expected="each { with its }; " + _EXPECTED)
    if rest:
        yield False, rest


def _parts(
    pieces: Iterator[tuple[bool, str]], text: str, field: str, *, inside: int
) -> tuple[str | Path | _Range, ...]:
    parts: list[str | Path | _Range] = []
    if inside > _DEPTH_MAX:
        raise InvalidRequest(field=field, value=text, expected=f"at most {_DEPTH_MAX} ranges within each other")
    for expression, words in pieces:
        if not expression:
            parts.append(words)
        elif words[:1] in ('"', "'"):
            parts.append(_literal(words, text, field))
        elif words == "end" and inside:
            return tuple(parts)
        elif words.startswith("range "):
            path = _path(words.removeprefix("range ").strip(), text, field)
            parts.append(_Range(path, _parts(pieces, text, field, inside=inside + 1)))
        else:
            parts.append(_path(words, text, field))
    if inside:
        raise InvalidRequest(field=field, value=text, expected="an {end} for each {range ...}")
    return tuple(parts)


def _literal(words: str, text: str, field: str) -> str:
    if words[0] == "'":
        return words[1:-1]
    try:
        return str(json.loads(words))
    except ValueError:
        raise InvalidRequest(field=field, value=text, expected='text such as "\\n" between double quotes') from None


def _path(words: str, text: str, field: str) -> Path:
    rest = words.removeprefix("$").removeprefix("@")
    steps: list[Step] = []
    place = 0
    while place < len(rest):
        if rest[place:] == ".":
            break  # `{.}` is the value itself
        found = _STEP.match(rest, place)
        if found is None or found.end() == place:
            raise InvalidRequest(field=field, value=text, expected=_EXPECTED)
        if found["deep"]:
            steps.append(_everything_below)
        steps.append(_step(found, text, field))
        place = found.end()
    if not steps and rest != ".":
        raise InvalidRequest(field=field, value=text, expected=_EXPECTED)
    return Path(tuple(steps))


def _step(found: re.Match[str], text: str, field: str) -> Step:
    if found["name"] == "*" or found["index"] == "*":
        return _children
    if found["index"] is not None:
        number = int(found["index"])
        return lambda value: iter([value[number]] if isinstance(value, list) and _holds(value, number) else [])
    for group in ("name", "single", "double"):
        if (key := found[group]) is not None:
            return lambda value: iter([value[key]] if isinstance(value, dict) and key in value else [])
    return _filter(found, text, field)


def _filter(found: re.Match[str], text: str, field: str) -> Step:
    path = _path(found["path"] or ".", text, field)
    if found["test"] is None:
        return lambda value: (each for each in _children(value) if path.found(each))
    try:
        wanted = json.loads(found["value"].replace("'", '"'))
    except ValueError:
        expected = 'a number, true, false or "text" to compare with'
        raise InvalidRequest(field=field, value=text, expected=expected) from None
    holds = _TESTS[found["test"]]

    def step(value: Any) -> Iterator[Any]:
        return (each for each in _children(value) if any(_compare(holds, seen, wanted) for seen in path.found(each)))

    return step


def _compare(holds: Callable[[Any, Any], bool], seen: Any, wanted: Any) -> bool:
    try:
        return bool(holds(seen, wanted))
    except TypeError:  # a number beside a text has no order
        return False


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value if isinstance(value, list) else ())


def _everything_below(value: Any) -> Iterator[Any]:
    yield value
    for each in _children(value):
        yield from _everything_below(each)


def _holds(value: list[Any], number: int) -> bool:
    return -len(value) <= number < len(value)
