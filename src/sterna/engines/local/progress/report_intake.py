"""Reports about jobs that come from outside their mailboxes: from monitors, by whatever way a program tells of itself.

A report is about one worker, or about its job as a whole. Evaluations are judged; how far a job is, and how fast it
goes, counts only for jobs whose workers do not tell so in their mailboxes.
"""

import logging
import uuid

from sterna.engines.door.household import Taken
from sterna.engines.local.progress import evaluations
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import Progress, WorkerRow
from sterna.engines.local.world.job_value import learning_spec
from sterna.engines.refusals import Refusals
from sterna.lifecycle.counters import settled
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.speed import plausible, with_point
from sterna.model.ids import JobId
from sterna.model.jobs import ProgressPoint
from sterna.protocol.reports import Answer, Batch, Refusal, Report, reason_of

log = logging.getLogger(__name__)

NAMELESS = "value"  # a metric that came without a name
_RANKS = {name: rank for rank, name in enumerate(evaluations.METRICS)}


class Reporting:
    """Remembers the last number of each sender, so that what is told twice counts once.

    A restart forgets those numbers, and monitors then tell again what they have: evaluations that the store knows are
    no newer than its last one, and are passed over for that.
    """

    def __init__(self, book: Book) -> None:
        self.instance = uuid.uuid4().hex  # another one after every start
        self._book = book
        self._last_seq: dict[str, dict[str, int]] = {}  # by uid of the job, then by name of the sender
        self._refusals = Refusals()

    async def answer(self, batch: Batch) -> Answer:
        """To the monitor inside the engine."""
        taken = self.take(batch) if batch.instance in ("", self.instance) else Taken(0)
        passed_over = len(batch.reports) - taken.new - len(taken.refused)
        return Answer(self.instance, passed_over, {}, {refusal.place: refusal.why for refusal in taken.refused})

    def take(self, batch: Batch, *, only_here: bool = False) -> Taken:
        """Each report by itself: what cannot be taken is told to its own job, and costs the others nothing.

        `only_here`: those about jobs on the batch's own node, and no others.
        """
        count = 0
        refused: list[Refusal] = []
        for place, report in enumerate(batch.reports):
            job = self._job_of(report)
            if job is None or (only_here and not is_on(job, batch.node)):
                continue
            known = self._last_seq.get(job.row.uid, {})
            if report.seq and report.seq <= known.get(report.pod, 0):
                continue
            if report.seq:  # else a monitor measured it, and the engine measures its own processes itself
                self._last_seq.setdefault(job.row.uid, known)[report.pod] = report.seq
                try:
                    self._note(job, report)
                except Exception as error:  # the boundary of one report: its neighbours' must arrive
                    log.exception("a report could not be taken", extra={"job": job.row.id})
                    refused.append(Refusal(place, report.pod, reason_of(error)))
                    continue
            count += 1
        for refusal in (*batch.refused, *refused):
            self._tell_of(refusal, on=batch.node if only_here else None)
        for pod, why in batch.faults.items():
            job = job_of_pod(self._book, pod)
            if job is not None and (not only_here or is_on(job, batch.node)):
                message = f"its output is not searched for values: {evaluations.LOG_PATTERN}: {why}"
                self._book.event("LogPatternRefused", message, job=job.row.id, warning=True)
        return Taken(count, tuple(refused))

    def forget(self, uid: str) -> None:
        """This job is gone."""
        self._last_seq.pop(uid, None)
        self._refusals.forget(uid)

    def _tell_of(self, refusal: Refusal, *, on: str | None) -> None:
        """The job that it was to be about, if there is one. `on`: and if it is on this node."""
        job = job_of_pod(self._book, refusal.pod)
        if job is None or (on is not None and not is_on(job, on)):
            return
        message = self._refusals.message(job.row.uid, refusal, self._book.timeline.now())
        if message is not None:
            self._book.event("ReportRefused", message, job=job.row.id, warning=True)

    def _note(self, job: LocalJob, report: Report) -> None:
        if job.row.finished:
            return
        if not any(process.status is not None for process in job.live):
            self._progress(job, report)
        metric = _called(job, report)
        if report.value is not None and _is_judged(job, metric):
            evaluations.evaluated(
                self._book,
                job,
                metric=metric,
                value=report.value,
                step=report.step if report.step is not None else report.epoch or 0,
                at_s=report.at_s,
            )

    def _progress(self, job: LocalJob, report: Report) -> None:
        """A program without our mailbox: what it says of its steps or epochs is all there is."""
        book, row = self._book, job.row
        before = row.progress or Progress(at_s=report.at_s)
        units = report.units_done if report.units_done is not None else _first(report.step, _finished_epochs(report))
        if units is None and report.value is None:
            return
        by_steps = report.step is not None or units is None  # else in epochs, of which a manifest may say how many
        metrics = dict(before.metrics)
        if report.value is not None:
            metrics[_called(job, report)] = report.value
        fresh = before._replace(
            at_s=book.timeline.now(),
            step=report.step if report.step is not None else before.step,
            epoch=report.epoch if report.epoch is not None else before.epoch,
            units_done=before.units_done if units is None else float(units),
            units_total=_first(report.units_total, before.units_total, None if by_steps else job.workload.units_total),
            step_s=report.step_s if report.step_s is not None else before.step_s,
            remaining_s=report.remaining_s if report.remaining_s is not None else before.remaining_s,
            metrics=metrics,
        )
        values = {**settled(row, job.spec, book.timeline.now()), "progress": fresh}
        if (point := self._learned(job, report, fresh)) is not None:
            values["points"] = with_point(row.points, point)
        book.touch_softly(job, **values)

    def _learned(self, job: LocalJob, report: Report, fresh: Progress) -> ProgressPoint | None:
        """How long a unit took, where the report says so: an epoch where epochs are counted, else a step."""
        unit_s = plausible(report.epoch_s if report.step is None else report.step_s)
        size = report.workers or size_of(job.row.assigned)
        if unit_s is None or not size or not job.row.assigned:
            return None
        book = self._book
        point = ProgressPoint(book.timeline.now(), fresh.units_done, size, unit_s, report.value)
        accelerator = book.accelerators.get(job.row.assigned[0].node, "")
        spec = learning_spec(job)
        book.learn(book.knowledge.learn(spec, accelerator, [point]), (spec.category, accelerator))
        return point

    def _job_of(self, report: Report) -> LocalJob | None:
        job = job_of_pod(self._book, report.pod)
        return None if job is None or (report.job_uid and report.job_uid != job.row.uid) else job


def seat_name(job: LocalJob, row: WorkerRow) -> str:
    """What a worker is called whichever process it is: `mnist-worker-0`."""
    return f"{job.workload.name}-{job.workload.template(row.role).word}-{row.ordinal}"


def job_of_pod(book: Book, pod: str) -> LocalJob | None:
    """Whose worker this is: `namespace/name` with the worker's own name, its seat's, or the job's for all of it."""
    namespace, slash, name = pod.rpartition("/")
    namespace = namespace if slash else "default"
    if (job := book.by_process.get(name)) is not None and job.workload.namespace == namespace:
        return job
    if (job := book.jobs.get(JobId(f"{namespace}/{name}"))) is not None:
        return job
    job_name, _, seat = name.rpartition("-")
    job_name, _, word = job_name.rpartition("-")
    job = book.jobs.get(JobId(f"{namespace}/{job_name}"))
    if job is None or not seat.isdigit():
        return None
    return job if any(template.word == word for template in job.workload.roles) else None


def _called(job: LocalJob, report: Report) -> str:
    """What the value is: as the report says, else as the job's owner does."""
    return report.metric or dict(job.workload.annotations).get(evaluations.METRIC) or NAMELESS


def _is_judged(job: LocalJob, metric: str) -> bool:
    """Is it the one that the job's owner chose, or at least as good as the one that was judged so far?"""
    chosen = dict(job.workload.annotations).get(evaluations.METRIC)
    if chosen is not None:
        return metric == chosen
    seen = job.row.evaluation
    return seen is None or _RANKS.get(metric, len(_RANKS)) <= _RANKS.get(seen.metric, len(_RANKS))


def _finished_epochs(report: Report) -> int | None:
    """Epochs are counted from 0, and told of when they are over."""
    return None if report.epoch is None else report.epoch + 1


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


def is_on(job: LocalJob, node: str) -> bool:
    return any(process.row.node == node for process in job.live)
