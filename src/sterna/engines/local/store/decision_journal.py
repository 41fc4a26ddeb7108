"""The journal of the local engine: decisions as text that can be replayed, and events for people.

Kept are decisions that change something, or that tell a waiting job something new; the files begin anew when they grow
too large or when another policy is chosen, each with what a reader must know to decide again. A decision that includes
moves somebody asked for is not kept, since its snapshot does not say so and a replay would decide otherwise; its
events are.
"""

from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path

from sterna.engines.local.store.job_book import Book
from sterna.journal.facts import events_of
from sterna.journal.journal import Record, Shapes, TextJournal
from sterna.model.events import Event, JobMigrated, JobPreempted, JobResized, JobStarted, JobWaits
from sterna.model.jobs import Worker
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot

BYTES_MAX = 8 << 20  # of one file
FILES_MAX = 8


class DecisionJournal:
    """Implements `Journal`."""

    def __init__(self, directory: Path, book: Book, shapes: Shapes | None, about: Callable[[], Record]) -> None:
        self.asked_for = False  # set while a decision includes moves that somebody asked for
        self._directory = directory
        self._book = book
        self._shapes = shapes  # None: nothing is kept for replay
        self._about = about
        self._file: TextIOWrapper | None = None
        self._text: TextJournal | None = None
        self._written = 0
        self._kept = False  # the decision under way is in the file, so what comes of it belongs there, too

    def seen(self, events: Sequence[Event]) -> None:
        if self._text is not None:
            self._text.seen(events)

    def decided(self, view: Snapshot, decision: Decision) -> None:
        news = [event for event in events_of(view, decision) if self._told(event)]
        self._kept = False
        if self._shapes is None or not (decision.changes_something or news):
            return
        if self.asked_for:
            self.seen(news)
            return
        self._opened().decided(view, decision)
        self._kept = True

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        if self._kept and self._text is not None:
            self._text.happened(outcomes)

    def begin_anew(self) -> None:
        """The next decision opens another file."""
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._text = None

    def _opened(self) -> TextJournal:
        if self._text is not None and self._written < BYTES_MAX:
            return self._text
        self.close()
        names = sorted(self._directory.glob("decisions-*.jsonl"))
        for old in names[: max(0, len(names) - FILES_MAX + 1)]:
            old.unlink(missing_ok=True)
        number = int(names[-1].stem.rpartition("-")[2]) + 1 if names else 1
        path = self._directory / f"decisions-{number:06d}.jsonl"
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._written = 0
        assert self._shapes is not None  # asked by whoever calls
        self._text = TextJournal(self._write, self._shapes, about=self._about())
        return self._text

    def _write(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line)
            self._written += len(line)

    def _told(self, event: Event) -> bool:
        """Make it an event for people; says whether it is news."""
        match event:
            case JobStarted(job_id=job_id, after=after, because=because):
                reason, message = "Starting", f"{_places(after)}: {because.sentence}"
            case JobResized(job_id=job_id, before=before, after=after, because=because):
                reason, message = "Resizing", f"{_places(before)} -> {_places(after)}: {because.sentence}"
            case JobMigrated(job_id=job_id, before=before, after=after, because=because):
                reason, message = "Migrating", f"{_places(before)} -> {_places(after)}: {because.sentence}"
            case JobPreempted(job_id=job_id, before=before, because=because):
                reason, message = "Preempting", f"{_places(before)}: {because.sentence}"
            case JobWaits(job_id=job_id, because=because):
                return self._waits(event)
            case _:
                return False
        job = self._book.jobs.get(job_id)
        if job is not None:
            job.last_why = ""
            self._book.event(reason, message, job=job_id, data={"why": because.why, **dict(because.numbers)})
        return True

    def _waits(self, event: JobWaits) -> bool:
        job, because = self._book.jobs.get(event.job_id), event.because
        if job is None or job.live or job.last_why == because.why:
            return False  # still leaving, or told already
        job.last_why = str(because.why)
        self._book.touch_softly(job, reason=str(because.why), message=because.sentence)
        data = {"why": because.why, **dict(because.numbers)}
        self._book.event("Waiting", because.sentence, job=event.job_id, data=data)
        return True


def _places(workers: tuple[Worker, ...]) -> str:
    nodes = ", ".join(sorted({worker.node for worker in workers}))
    return f"{len(workers)} worker{'s' if len(workers) != 1 else ''} on {nodes}"
