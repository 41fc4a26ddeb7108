"""How a job stands, as the scheduling core sees it: counters that grow while it holds workers, and its `Job` value."""

from dataclasses import replace
from typing import Any

from sterna.engines.local.store.job_book import LocalJob, own_category
from sterna.engines.local.store.rows import JobRow, WorkerRow
from sterna.lifecycle import counters
from sterna.lifecycle.work_left import work_left, work_total
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.learning import Knowledge, learns_within
from sterna.model.workload import Workload


def spec_of(workload: Workload, row: JobRow) -> JobSpec:
    """What the core is told to size and place: the manifest's words, within the bounds somebody set since."""
    if row.bounds is None:
        return workload.job_spec(submitted_s=row.submitted_s)
    low, high = row.bounds
    initial = min(max(workload.workers_initial, low), high)
    scaled = replace(workload, workers_min=low, workers_max=high, workers_initial=initial)
    return scaled.job_spec(submitted_s=row.submitted_s)


def learning_spec(job: LocalJob) -> JobSpec:
    """Under which category its speed is kept: its own, where it shares with nobody."""
    return sharing_spec(job) if job.spec.category else replace(job.spec, category=own_category(job))


def sharing_spec(job: LocalJob) -> JobSpec:
    """Under which category it shares what is learned, with jobs of its namespace. None: it shares with nobody."""
    return learns_within(job.spec)


def holding(
    row: JobRow, spec: JobSpec, workers: tuple[Worker, ...], now_s: float, *, comes_back: bool
) -> dict[str, Any]:
    """What changes about a job that holds exactly these from now on.

    `comes_back`: it lets go of everything only to take up something else, so its time in the seat goes on counting.
    """
    restart_s = row.progress.restart_s if row.progress is not None and row.progress.restart_s is not None else 0.0
    values = counters.holding(row, spec, workers, now_s, restart_s=restart_s, comes_back=comes_back)
    return values | {"assigned": workers}


def value_of(job: LocalJob, knowledge: Knowledge) -> Job:
    """The job as the next snapshot shows it."""
    row, progress = job.row, job.row.progress
    learned = learning_spec(job)
    return Job(
        spec=job.spec,
        phase=row.phase,
        workers=row.assigned,
        leaving=leaving(job),
        as_of_s=row.as_of_s,
        resumes_s=row.resumes_s,
        waiting_since_s=row.waiting_since_s,
        first_started_s=row.first_started_s,
        started_s=row.started_s,
        gpu_s=row.gpu_s,
        ran_s=row.ran_s,
        gpu_s_since_start=row.gpu_s_since_start,
        last_ran_s=row.last_ran_s,
        units_left=units_left(job, knowledge),
        curve=knowledge.curve_for(learned),
        checkpoint_s=progress.save_s or 0.0 if progress is not None else 0.0,
        restart_s=progress.restart_s or 0.0 if progress is not None else 0.0,
        progress=row.points,
        growth=None if row.evaluation is None else row.evaluation.growth,
        disruptions=job.disruptions,
    )


def units_left(job: LocalJob, knowledge: Knowledge) -> float | None:
    """Work left, in the units that the program counts. None: unknown."""
    done = job.row.progress.units_done if job.row.progress is not None else 0.0
    return work_left(total=units_total(job), done=done, usual=knowledge.units_for(sharing_spec(job)))


def units_total(job: LocalJob) -> float | None:
    """All its work, in the units that the program counts. None: unknown."""
    progress, epochs = job.row.progress, job.workload.units_total
    if progress is None:
        return epochs
    return work_total(done=progress.units_done, told=progress.units_total, epoch=progress.epoch, declared_epochs=epochs)


def leaving(job: LocalJob) -> tuple[Worker, ...]:
    """Processes that take room beside what is assigned: those that go, and those that still train while others warm up.

    One whose own seat is waiting for it to be gone takes no more than that seat.
    """
    live = [process.row for process in job.live]
    if not live:
        return ()
    seats, trains = set(job.row.assigned), job.row.incarnation
    newest = max((row.incarnation for row in live if row.wanted), default=0)
    seated = {row.uid: row for row in live if row.wanted and row.incarnation == newest and row.place in seats}
    taken = {row.place for row in seated.values() if takes_room(row, trains)}
    rest = [
        row.place
        for row in live
        if row.uid not in seated and takes_room(row, trains) and (row.place not in seats or row.place in taken)
    ]
    return tuple(sorted(rest))


def takes_room(row: WorkerRow, trains: int) -> bool:
    """May there be a process behind it, be it one whose launch is not answered yet?

    One that waits for others to be gone has none. `trains`: the job's incarnation.
    """
    return row.started_s is not None or row.standby or row.incarnation <= trains
