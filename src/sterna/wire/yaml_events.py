"""YAML by the 1.2 core rules, built from parser events: `no` is text, a date is text, and there are no tags.

There is no recursion, and an alias counts for everything it stands for, so neither a deep document nor one of
nested aliases costs more than its limits allow. Keys are text however they are written.
"""

import re
from typing import Any, NoReturn

import yaml

from sterna.model.errors import InvalidRequest

ALIASES_MAX = 100

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one where there is one: ten times as fast
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", "+.inf", ".Inf", ".INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def value_of_yaml(text: str, *, name: str, values_max: int, depth_max: int, first_line: int = 1) -> Any:
    """The one document in `text`, which begins at `first_line` of what its author has."""
    builder = _Builder(name, values_max, depth_max, first_line)
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}: line {mark.line + first_line}, column {mark.column + 1}" if mark else name
        raise InvalidRequest(field=where, value=error.problem or "text", expected="YAML") from None
    except yaml.YAMLError as error:
        raise InvalidRequest(field=name, value=str(error).splitlines()[0], expected="YAML") from None
    return builder.document


class _Open:
    """A list or mapping whose end has not been seen yet."""

    def __init__(self, container: Any, anchor: str | None, values_before: int) -> None:
        self.container = container
        self.anchor = anchor
        self.values_before = values_before
        self.key: str | None = None  # of a mapping, once seen: the next value belongs to it


class _Builder:
    def __init__(self, name: str, values_max: int, depth_max: int, first_line: int) -> None:
        self.document: Any = None
        self._name, self._values_max, self._depth_max, self._first_line = name, values_max, depth_max, first_line
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # value, and how many values it is
        self._values = self._aliases = self._documents = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open({} if isinstance(event, yaml.MappingStartEvent) else [], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._refuse(event, "a second document", "one document")

    def _scalar(self, event: Any) -> None:
        if event.tag not in _TEXT_TAGS:
            self._refuse(event, event.tag, "no tags")
        top = self._stack[-1] if self._stack else None
        if top is not None and type(top.container) is dict and top.key is None:
            if event.value in top.container:
                self._refuse(event, event.value, "each key once in its mapping")
            top.key = event.value
            return
        value = _resolved(event.value) if event.implicit[0] else event.value
        self._count(event, 1)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value)

    def _open(self, container: Any, event: Any) -> None:
        self._as_value(event)
        if event.tag not in (None, "!"):
            self._refuse(event, event.tag, "no tags")
        if len(self._stack) >= self._depth_max:
            self._refuse(event, "too deeply nested", f"at most {self._depth_max} levels")
        self._stack.append(_Open(container, event.anchor, self._values))
        self._count(event, 1)

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        if done.anchor:  # only now: a value that contains itself is no tree
            self._anchors[done.anchor] = (done.container, self._values - done.values_before)
        self._put(done.container)

    def _alias(self, event: Any) -> None:
        self._as_value(event)
        self._aliases += 1
        if self._aliases > ALIASES_MAX or event.anchor not in self._anchors:
            self._refuse(
                event, f"*{event.anchor}", f"at most {ALIASES_MAX} aliases, each of something complete above it"
            )
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        self._put(value)

    def _as_value(self, event: Any) -> None:
        if self._stack and type(self._stack[-1].container) is dict and self._stack[-1].key is None:
            self._refuse(event, "a key that is no text", "keys that are text")

    def _put(self, value: Any) -> None:
        if not self._stack:
            self.document = value
            return
        top = self._stack[-1]
        if type(top.container) is dict:
            top.container[top.key] = value
            top.key = None
        else:
            top.container.append(value)

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > self._values_max:
            self._refuse(event, "too many values", f"at most {self._values_max} values")

    def _refuse(self, event: Any, value: object, expected: str) -> NoReturn:
        mark = event.start_mark
        raise InvalidRequest(
            field=f"{self._name}: line {mark.line + self._first_line}, column {mark.column + 1}",
            value=value,
            expected=expected,
        )


def _resolved(text: str) -> Any:
    """What a plain scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
