"""The journal that an engine keeps: decisions as text that can be replayed, in files that take turns.

Kept are decisions that change something, and those that have a new reason for a job that waits, each with its id and
with what came of it. A file opens with what a reader must know to decide again, so another policy begins another file.

Nothing here delays a decision. An engine hands over values, which do not change; a thread makes them text and writes
them. When it does not keep up, entries are dropped, and the journal says how many; what cannot be written is told once
in the log and is counted as dropped, too.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sterna.journal.background_writer import BackgroundWriter
from sterna.journal.journal import (
    Journal,
    Record,
    Shapes,
    decided_record,
    dropped_record,
    happened_record,
    line_of,
    opened_record,
    pieces_of,
)
from sterna.journal.rotating_files import RotatingFiles
from sterna.model.events import Event
from sterna.model.ids import JobId
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot

log = logging.getLogger(__name__)

BYTES_MAX = 16 << 20  # of one file: a decision about 10,000 jobs takes about 6 MiB
FILES_MAX = 8
WAITING_MAX = 64  # entries in line
MOVES = "moves that were begun or asked for"  # what decisions depend on that no snapshot tells of
CLOSE_S = 2.0  # how long the end of a process may be held up by what is not written yet
_GIVE_WAY_S = 0.0005


class _Decided(NamedTuple):
    about: Record
    decision_id: str
    beside: str
    view: Snapshot
    decision: Decision


class _Happened(NamedTuple):
    about: Record
    decision_id: str
    outcomes: tuple[Outcome, ...]


class DecisionJournal:
    """One a process. `cycle` gives what the loop writes one cycle to."""

    def __init__(
        self,
        directory: Path,
        shapes: Shapes,
        *,
        bytes_max: int = BYTES_MAX,
        files_max: int = FILES_MAX,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._directory = directory
        self._shapes = shapes
        self._files = RotatingFiles(directory, bytes_max=bytes_max, files_max=files_max)
        self._writer: BackgroundWriter[_Decided | _Happened] = BackgroundWriter(self._write, waiting_max=waiting_max)
        self._reasons: Mapping[JobId, str] = {}  # why jobs wait, as the latest decision had it
        self._kept_id = ""  # of the latest decision that is in a file: what came of it belongs there, too
        self._lost = 0  # entries that could not be written since the latest one that was
        self._trouble = ""

    def cycle(self, decision_id: str, about: Record, *, beside: Callable[[], str] = lambda: "") -> Journal:
        """`beside` is asked once the decision is made: what it depends on that its snapshot does not say."""
        return _CycleJournal(self._writer, decision_id, about, beside)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Wait for the thread. False: it did not come to its end within this time."""
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Write what is left, as far as the disk takes it within this time."""
        if self._writer.close(timeout_s):
            self._files.close()

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _write(self, entry: _Decided | _Happened, dropped: int) -> None:
        self._lost += dropped
        try:
            if isinstance(entry, _Happened):
                if entry.decision_id == self._kept_id:
                    self._append(
                        entry.about, happened_record(self._shapes, entry.outcomes, decision_id=entry.decision_id)
                    )
            elif self._is_news(entry):
                self._kept_id = ""
                if self._append(entry.about, self._record_of(entry)):
                    self._kept_id = entry.decision_id
        except Exception as error:  # the boundary of an entry: a full disk, or a bug, must not stop the next one
            self._lost += 1
            self._complain(str(error) or type(error).__name__)

    def _record_of(self, entry: _Decided) -> Record:
        return decided_record(
            self._shapes, entry.view, entry.decision, decision_id=entry.decision_id, beside=entry.beside
        )

    def _append(self, about: Record, record: Record) -> bool:
        """False: it is longer than a file may be."""
        head = f"{line_of(opened_record(about))}\n".encode()
        line = _patiently_encoded(record)
        if not self._files.fits(head, line):
            self._lost += 1
            self._complain("an entry is longer than a file may be")
            return False
        if self._lost:
            self._files.write(head, f"{line_of(dropped_record(self._lost))}\n".encode())
            self._lost = 0
        self._files.write(head, line)
        self._trouble = ""
        return True

    def _is_news(self, entry: _Decided) -> bool:
        """Does it change something, or has a job that waits another reason than before?"""
        decision = entry.decision
        waiting = [job for job in entry.view.jobs if job.wants_workers and not job.workers]
        reasons = {job.id: str(decision.because_of(job.id).why) for job in waiting}
        before, self._reasons = self._reasons, reasons
        return decision.changes_something or any(before.get(job_id) != why for job_id, why in reasons.items())

    def _complain(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            log.error("journal not written", extra={"directory": str(self._directory), "why": why})


class _CycleJournal:
    """Implements `Journal` for one cycle."""

    def __init__(
        self,
        writer: BackgroundWriter[_Decided | _Happened],
        decision_id: str,
        about: Record,
        beside: Callable[[], str],
    ) -> None:
        self._writer = writer
        self._decision_id = decision_id
        self._about = about
        self._beside = beside

    def seen(self, events: Sequence[Event]) -> None:
        """Engines tell of what was not decided by events of their own."""

    def decided(self, view: Snapshot, decision: Decision) -> None:
        self._writer.put(_Decided(self._about, self._decision_id, self._beside(), view, decision))

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self._writer.put(_Happened(self._about, self._decision_id, tuple(outcomes)))


def _patiently_encoded(record: Record) -> bytes:
    """A thread that waits for the interpreter gets it between two pieces, as soon as half a millisecond is used up."""
    text: list[str] = []
    given_s = time.perf_counter()
    for piece in pieces_of(record):
        text.append(piece)
        if time.perf_counter() - given_s > _GIVE_WAY_S:
            time.sleep(0)
            given_s = time.perf_counter()
    text.append("\n")
    return "".join(text).encode()
