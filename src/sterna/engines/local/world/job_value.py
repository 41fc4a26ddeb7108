"""Facts of a job that its value for the scheduling core follows from: what it asks for, how it trains, what it holds,
and which of its processes still take room.
"""

from dataclasses import replace
from typing import Any

from sterna.engines.local.store.job_book import LocalJob, own_category
from sterna.engines.local.store.rows import JobRow, Progress, WorkerRow
from sterna.lifecycle import counters
from sterna.lifecycle.growth_news import judged_growth
from sterna.lifecycle.job_value import TrainingFacts, job_value
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.learning import Knowledge, learns_within
from sterna.model.workload import Workload


def spec_of(workload: Workload, row: JobRow) -> JobSpec:
    """What the core is told to size and place: what the manifest says, within the bounds a user set since."""
    if row.bounds is None:
        return workload.job_spec(submitted_s=row.submitted_s)
    low, high = row.bounds
    initial = min(max(workload.workers_initial, low), high)
    scaled = replace(workload, workers_min=low, workers_max=high, workers_initial=initial)
    return scaled.job_spec(submitted_s=row.submitted_s)


def learning_spec(job: LocalJob) -> JobSpec:
    """With the category that its speed is kept under: its own, where it shares with no other job."""
    return sharing_spec(job) if job.spec.category else replace(job.spec, category=own_category(job))


def sharing_spec(job: LocalJob) -> JobSpec:
    """With the category that it shares with jobs of its namespace. Empty: it shares with no other job."""
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
    facts = training_facts(job)._replace(
        curve=knowledge.curve_for(learning_spec(job)), units_usual=knowledge.units_for(sharing_spec(job))
    )
    return job_value(job.spec, job.row, facts, leaving=leaving(job), disruptions=job.disruptions)


def training_facts(job: LocalJob) -> TrainingFacts:
    """How the job trains, without what jobs like it taught."""
    row, said = job.row, job.row.progress or Progress(at_s=0.0)
    return TrainingFacts(
        units_done=said.units_done,
        units_total=said.units_total,
        epoch=said.epoch,
        epochs_declared=job.workload.units_total,
        told_s=said.at_s,
        remaining_s=said.remaining_s,
        points=row.points,
        growth=None if row.evaluation is None else judged_growth(row.evaluation.growth),
    )


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
