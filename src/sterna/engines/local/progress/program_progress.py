"""From what training programs say to what the scheduling core knows: progress, speed, what saving and loading cost."""

from typing import Any

from sterna.engines.local.progress import evaluations
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import Progress
from sterna.engines.local.world.job_value import learning_spec
from sterna.lifecycle.counters import settled
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.speed import Mark, measured, with_point
from sterna.model.jobs import ProgressPoint
from sterna.protocol import Status


def speaks_for_job(job: LocalJob, process: LocalProcess) -> bool:
    """Is it the lowest rank that trains?"""
    row = process.row
    if row.incarnation != job.row.incarnation or process.status is None:
        return False
    return all(
        (other.row.rank, other.row.uid) >= (row.rank, row.uid)
        for other in job.live
        if other.row.incarnation == row.incarnation and other.status is not None
    )


def note(book: Book, job: LocalJob, process: LocalProcess) -> None:
    """Take over what the job's speaker last said."""
    status, row = process.status, job.row
    if status is None or row.finished or not speaks_for_job(job, process):
        return
    now_s = book.timeline.now()
    before = row.progress
    fresh = Progress(
        at_s=now_s,
        step=status.step,
        epoch=status.epoch,
        units_done=status.units_done,
        units_total=status.units_total,
        step_s=status.step_s,
        metrics=dict(status.metrics),
        checkpoint=_checkpoint(book, status, before),
        save_s=status.save_s if status.save_s is not None else before and before.save_s,
        load_s=status.load_s if status.load_s is not None else before and before.load_s,
        restart_s=before.restart_s if before is not None else None,
        problem=status.problem,
    )
    values: dict[str, Any] = {**settled(row, job.spec, now_s), "progress": fresh}
    if status.first_step_mono_s is not None and row.resumes_s > now_s:
        values["resumes_s"] = now_s
    if (point := _learned(book, job, status)) is not None:
        values["points"] = with_point(row.points, point)
    if status.problem and (before is None or before.problem != status.problem):
        book.event("TrainingProblem", status.problem, job=row.id, warning=True, data={"worker": process.row.uid})
    book.touch_softly(job, **values)
    evaluations.heard(book, job, status)


def _learned(book: Book, job: LocalJob, status: Status) -> ProgressPoint | None:
    """One more measurement, if the same workers have trained for long enough since the last one."""
    size = size_of(job.row.assigned)
    if status.last_step_mono_s is None or not size:
        return None
    here = Mark(status.units_done, status.last_step_mono_s, size, str(job.row.incarnation))
    job.measured_from, unit_s = measured(job.measured_from, here)
    if unit_s is None:
        return None
    metric = evaluations.metric_of(job.workload, status.metrics)
    value = None if metric is None else status.metrics[metric]
    point = ProgressPoint(book.timeline.now(), status.units_done, size, unit_s, value)
    accelerator = book.accelerators.get(job.row.assigned[0].node, "")
    spec = learning_spec(job)
    book.learn(book.knowledge.learn(spec, accelerator, [point]), (spec.category, accelerator))
    return point


def _checkpoint(book: Book, status: Status, before: Progress | None) -> dict[str, Any] | None:
    made = status.checkpoint
    if made is None:
        return dict(before.checkpoint) if before is not None and before.checkpoint is not None else None
    return {
        "step": made.step,
        "bytes": made.bytes,
        "saveSeconds": status.save_s,
        "at_s": book.timeline.moment_of(made.at_mono_s),
    }
