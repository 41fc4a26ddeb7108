"""Reading a journal back, and deciding again what it says was decided.

The same snapshot must give the same decision, byte for byte; where it does not, either the journal was made by other
code or options, or deciding is not pure.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sterna.journal.journal import Record, line_of
from sterna.model.errors import InvalidRequest
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot

KINDS = ("opened", "seen", "decided", "happened", "dropped")


class Entry(NamedTuple):
    line: int  # from 1
    kind: str  # one of KINDS
    parts: dict[str, Any]


class Replayed(NamedTuple):
    """One decision, as it was recorded and as it came out now."""

    line: int
    recorded: str
    again: str
    decision_id: str = ""  # as logs and events name it. Empty: the journal does not say

    @property
    def same(self) -> bool:
        return self.recorded == self.again


def read_journal(lines: Iterable[str]) -> Iterator[Entry]:
    """Entries in order. A last line that was cut short by a crash is left out; any other bad line is an error."""
    broken: InvalidRequest | None = None
    for number, line in enumerate(lines, start=1):
        if broken is not None:
            raise broken
        if not line.strip():
            continue
        try:
            yield _entry(number, line)
        except InvalidRequest as error:
            if line.endswith("\n"):
                raise
            broken = error  # forgiven if nothing follows


def replay(
    entries: Iterable[Entry],
    *,
    read_snapshot: Callable[[Record], Snapshot],
    decide: Callable[[Snapshot], Decision],
    shape: Callable[[Snapshot, Decision], Record],
    passed_over: Callable[[Entry], None] = lambda _: None,
) -> Iterator[Replayed]:
    """Decide every recorded snapshot again.

    `passed_over` is told of decisions that cannot be, since they depend on more than their snapshot (`beside` says on
    what), and of places where entries were dropped.
    """
    for entry in entries:
        if entry.kind == "dropped" or entry.parts.get("beside"):
            passed_over(entry)
        elif entry.kind == "decided":
            try:
                view, recorded = read_snapshot(_part(entry, "snapshot")), line_of(_part(entry, "decision"))
            except InvalidRequest as error:
                where = f"journal line {entry.line}: {error.field}"
                raise InvalidRequest(field=where, value=error.value, expected=error.expected) from None
            yield Replayed(entry.line, recorded, line_of(shape(view, decide(view))), str(entry.parts.get("id", "")))


def _part(entry: Entry, name: str) -> Record:
    part = entry.parts.get(name)
    if not isinstance(part, dict):
        raise InvalidRequest(field=name, value=part, expected="an object")
    return part


def _entry(number: int, line: str) -> Entry:
    try:
        parts = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidRequest(field=f"journal line {number}", value=line[:80], expected="one line of JSON") from None
    kind = parts.pop("entry", None) if isinstance(parts, dict) else None
    if kind not in KINDS:
        expected = "an object whose entry is one of: " + ", ".join(KINDS)
        raise InvalidRequest(field=f"journal line {number}", value=kind, expected=expected)
    return Entry(number, kind, parts)
