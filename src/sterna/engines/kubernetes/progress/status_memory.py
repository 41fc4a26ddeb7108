"""How a job trains, as its own status remembers it: written seldom, and all that is known without an operator. Pure."""

from typing import NamedTuple

from sterna.engines.kubernetes.status.standing import Progress, Standing
from sterna.lifecycle.job_value import TrainingFacts
from sterna.lifecycle.speed import plausible
from sterna.model.jobs import JobSpec, ProgressPoint
from sterna.model.learning import ThroughputModel
from sterna.model.workload import Workload


class Counts(NamedTuple):
    """How far a job has come."""

    units_done: float
    units_total: float | None  # None: the program did not say
    epoch: int


def remembered(standing: Standing, spec: JobSpec, workload: Workload | None) -> TrainingFacts:
    """What the status tells, without what jobs like it taught."""
    counts, reported = counts_in(standing), standing.reported
    return TrainingFacts(
        curve=own_model(standing).curve(spec.workers_max),
        units_done=counts.units_done,
        units_total=counts.units_total,
        epoch=counts.epoch,
        epochs_declared=None if workload is None else workload.units_total,
        told_s=reported.at_s if reported is not None and reported.units_done >= counts.units_done else 0.0,
        growth=standing.growth,
    )


def counts_in(standing: Standing) -> Counts:
    """As monitors told, or as the termination message of the job's leader says, whichever is further."""
    progress, reported = standing.progress or Progress(), standing.reported
    if reported is not None and reported.units_done > progress.units_done:
        return Counts(reported.units_done, reported.units_total, progress.epoch)
    return Counts(progress.units_done, progress.units_total, progress.epoch)


def own_model(standing: Standing) -> ThroughputModel:
    """Its speed, from its own measurements alone."""
    reported, progress = standing.reported, standing.progress
    if reported is not None and reported.unit_s is not None and reported.workers:
        return ThroughputModel().observed(reported.workers, reported.unit_s)
    point = None if progress is None else last_word(progress)
    return ThroughputModel() if point is None else ThroughputModel().observed(point.workers, point.unit_s)


def last_word(progress: Progress) -> ProgressPoint | None:
    """None: it said nothing of its speed, or nothing that can be meant."""
    unit_s, workers = plausible(progress.step_s), progress.workers
    return None if unit_s is None or not workers else ProgressPoint(0.0, progress.units_done, workers, unit_s)
