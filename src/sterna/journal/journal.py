"""What was seen, decided and done. The seam that the loop writes to, and how each entry looks as text.

A journal records, and never answers: nothing that decides reads it. The shapes of snapshots and decisions belong to
`wire/`, so a text journal is handed them. What engines keep on a disk is `decision_journal.py`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sterna.model.errors import InvariantBroken
from sterna.model.events import Event
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot

Record = Mapping[str, Any]  # what JSON can say


class Journal(Protocol):
    def seen(self, events: Sequence[Event]) -> None:
        """What was not decided: a job was submitted or ended, a node came or went."""

    def decided(self, view: Snapshot, decision: Decision) -> None:
        """Written before anything is done about it, so that whatever crashes afterwards can be replayed."""

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        """What came of the actions of one step."""


class NoJournal:
    """Keeps nothing: for simulations, which can be run again."""

    def seen(self, events: Sequence[Event]) -> None:
        pass

    def decided(self, view: Snapshot, decision: Decision) -> None:
        pass

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """How the nouns look as data: given by the code that wires the parts together."""

    snapshot: Callable[[Snapshot], Record]
    decision: Callable[[Snapshot, Decision], Record]
    outcome: Callable[[Outcome], Record]
    event: Callable[[Event], Record]


class TextJournal:
    """One line of JSON for each entry, to a sink that takes text. `replay.py` reads it back.

    `about` opens the journal: policy, options and whatever else a reader must know to decide again.
    """

    def __init__(self, sink: Callable[[str], object], shapes: Shapes, *, about: Record | None = None) -> None:
        self._sink = sink
        self._shapes = shapes
        self._write(opened_record(about or {}))

    def seen(self, events: Sequence[Event]) -> None:
        if events:
            self._write({"entry": "seen", "events": [self._shapes.event(event) for event in events]})

    def decided(self, view: Snapshot, decision: Decision) -> None:
        self._write(decided_record(self._shapes, view, decision))

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self._write(happened_record(self._shapes, outcomes))

    def _write(self, record: Record) -> None:
        self._sink(line_of(record) + "\n")


def opened_record(about: Record) -> Record:
    """What opens a journal, and every file of one that has several."""
    return {"entry": "opened", "about": about}


def decided_record(
    shapes: Shapes, view: Snapshot, decision: Decision, *, decision_id: str = "", beside: str = ""
) -> Record:
    """`beside`: what the decision depends on that the snapshot does not say, in words. Empty: nothing, so that the same
    snapshot gives the same decision.
    """
    return {
        "entry": "decided",
        **({"id": decision_id} if decision_id else {}),
        **({"beside": beside} if beside else {}),
        "snapshot": shapes.snapshot(view),
        "decision": shapes.decision(view, decision),
    }


def happened_record(shapes: Shapes, outcomes: Sequence[Outcome], *, decision_id: str = "") -> Record:
    return {
        "entry": "happened",
        **({"id": decision_id} if decision_id else {}),
        "outcomes": [shapes.outcome(outcome) for outcome in outcomes],
    }


def dropped_record(entries: int) -> Record:
    """So many entries are missing here: they came faster than they could be written."""
    return {"entry": "dropped", "entries": entries}


def line_of(record: Record) -> str:
    """The one way a record is written: equal records give equal bytes."""
    return _encoded(record)


def pieces_of(record: Record) -> Iterator[str]:
    """The text of `line_of`, a little at a time: the encoder keeps every other thread waiting while it works on one
    piece, and a snapshot of thousands of jobs is long.
    """
    return _pieces(record, _DEPTH)


_DEPTH = 3  # entry -> snapshot -> jobs -> each job


def _pieces(value: Any, depth: int) -> Iterator[str]:
    if not depth or not value or not isinstance(value, dict | list | tuple):
        yield _encoded(value)
        return
    named = isinstance(value, dict)
    for number, part in enumerate(value.items() if isinstance(value, dict) else value):
        start = "," if number else "{" if named else "["
        yield f"{start}{_encoded(part[0])}:" if named else start
        yield from _pieces(part[1] if named else part, depth - 1)
    yield "}" if named else "]"


def _encoded(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InvariantBroken(f"a number that JSON cannot say reached the journal: {error}") from error
