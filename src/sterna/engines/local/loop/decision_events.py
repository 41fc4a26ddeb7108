"""What decisions mean for the people whose jobs they are about: an event each, and what is shown of a job that waits.

Each event names its decision, by the id under which the journal keeps it (`sterna.journal.decision_journal`).
"""

from collections.abc import Sequence

from sterna.engines.local.store.job_book import Book
from sterna.journal.decision_journal import MOVES, DecisionJournal
from sterna.journal.facts import events_of
from sterna.journal.journal import Journal, NoJournal, Record
from sterna.lifecycle.gang_roles import size_of
from sterna.model.events import Event, JobEvent, JobMigrated, JobPreempted, JobResized, JobStarted, JobWaits
from sterna.model.jobs import Worker
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because


class DecisionEvents:
    """`kept`: where decisions are kept for replay. None: nowhere."""

    def __init__(self, book: Book, kept: DecisionJournal | None) -> None:
        self.asked_for = False  # set while a decision includes moves that its snapshot does not tell of
        self._book = book
        self._kept = kept

    def cycle(self, decision_id: str, about: Record) -> "CycleEvents":
        """What one cycle is written to."""
        if self._kept is None:
            return CycleEvents(self._book, NoJournal(), decision_id)
        return CycleEvents(self._book, self._kept.cycle(decision_id, about, beside=self._beside), decision_id)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()

    def _beside(self) -> str:
        return MOVES if self.asked_for else ""


class CycleEvents:
    """Implements `Journal` for one cycle."""

    def __init__(self, book: Book, kept: Journal, decision_id: str) -> None:
        self._book = book
        self._kept = kept
        self._decision_id = decision_id

    def seen(self, events: Sequence[Event]) -> None:
        self._kept.seen(events)

    def decided(self, view: Snapshot, decision: Decision) -> None:
        for event in events_of(view, decision):
            self._tell(event)
        self._kept.decided(view, decision)

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        self._kept.happened(outcomes)

    def _tell(self, event: JobEvent) -> None:
        match event:
            case JobStarted(job_id=job_id, after=after, because=because):
                reason, message = "Starting", f"{_places(after)}: {because.sentence}"
            case JobResized(job_id=job_id, before=before, after=after, because=because):
                reason, message = "Resizing", f"{_places(before)} -> {_places(after)}: {because.sentence}"
            case JobMigrated(job_id=job_id, before=before, after=after, because=because):
                reason, message = "Migrating", f"{_places(before)} -> {_places(after)}: {because.sentence}"
            case JobPreempted(job_id=job_id, before=before, because=because):
                reason, message = "Preempting", f"{_places(before)}: {because.sentence}"
            case JobWaits():
                self._tell_why_it_waits(event)
                return
            case _:
                return
        job = self._book.jobs.get(job_id)
        if job is not None:
            job.last_why = ""
            self._book.event(reason, message, job=job_id, data=self._data(because))

    def _tell_why_it_waits(self, event: JobWaits) -> None:
        job, because = self._book.jobs.get(event.job_id), event.because
        if job is None or job.live or job.last_why == because.why:
            return  # still leaving, or told already
        job.last_why = str(because.why)
        self._book.touch_softly(job, reason=str(because.why), message=because.sentence)
        self._book.event("Waiting", because.sentence, job=event.job_id, data=self._data(because))

    def _data(self, because: Because) -> dict[str, object]:
        return {"why": because.why, **dict(because.numbers), "decision": self._decision_id}


def _places(workers: tuple[Worker, ...]) -> str:
    nodes = ", ".join(sorted({worker.node for worker in workers}))
    size = size_of(workers)
    return f"{size} worker{'s' if size != 1 else ''} on {nodes}"
