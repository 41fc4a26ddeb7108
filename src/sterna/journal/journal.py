"""What was seen, decided and done. The seam that the loop writes to, and two ways of keeping what it writes.

A journal records, and never answers: nothing that decides reads it. The shapes of snapshots and decisions belong to
`wire/`, so a text journal is handed them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sterna.model.errors import InvariantBroken
from sterna.model.events import Event
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot

Record = Mapping[str, Any]  # what JSON can say


class Journal(Protocol):
    def seen(self, events: Sequence[Event]) -> None:
        """What nobody decided: a job was submitted or ended, a node came or went."""

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
    """How the nouns look as data: given by whoever wires the parts together."""

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
        self._write("opened", about=about or {})

    def seen(self, events: Sequence[Event]) -> None:
        if events:
            self._write("seen", events=[self._shapes.event(event) for event in events])

    def decided(self, view: Snapshot, decision: Decision) -> None:
        self._write("decided", snapshot=self._shapes.snapshot(view), decision=self._shapes.decision(view, decision))

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self._write("happened", outcomes=[self._shapes.outcome(outcome) for outcome in outcomes])

    def _write(self, entry: str, **parts: Any) -> None:
        self._sink(line_of({"entry": entry, **parts}) + "\n")


def line_of(record: Record) -> str:
    """The one way a record is written: equal records give equal bytes."""
    try:
        return json.dumps(record, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InvariantBroken(f"a number that JSON cannot say reached the journal: {error}") from error
