"""What moves are weighed by: the pause, the time left, which jobs' seconds count. What a move changes: `forecast.py`.

The pause of a move is what the job measured: saving its state, stopping and starting again.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from sterna.model.growth import Category
from sterna.model.jobs import Job
from sterna.model.options import option
from sterna.placement.rebalancers.scene import category_of


class CostMode(StrEnum):
    FULL = "full"
    GROWTH = "growth"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CostOptions:
    mode: CostMode = option(
        CostMode.FULL,
        "whose seconds count: those of all jobs alike (full), those of converged jobs by their small weight (growth), "
        "or no job's, so that every move that evens loads is made (off: SpeCon as published)",
    )
    horizon_s: float = option(
        600.0,
        "how far into the future a move is weighed, and the time left of jobs that do not tell it",
        at_least=0,
        at_most=1e9,
    )
    pause_s: float = option(5.0, "the pause of a move of a job whose pauses were not measured", at_least=0, at_most=1e9)
    harm_max: float = option(
        0.05,
        "by which share of its whole time any one job may be delayed by moves, its own and others'; 0: by any",
        at_least=0,
        at_most=1e9,
    )
    converged_weight: float = option(
        0.1,
        "what a converged worker counts beside 1 for others: in contention, and in seconds where mode=growth",
        at_least=0,
        at_most=1e9,
    )


def pause_s(job: Job, options: CostOptions) -> float:
    """What one move costs the job itself."""
    if options.mode is CostMode.OFF:
        return 0.0
    return job.checkpoint_s + job.restart_s or options.pause_s


def time_left_s(job: Job, now_s: float, options: CostOptions) -> float:
    """Until the job ends, as far as is known, and not beyond the horizon."""
    left = job.remaining_s(job.size, now_s)
    return min(options.horizon_s, left) if left != inf else options.horizon_s


def weight_of(category: Category, options: CostOptions) -> float:
    """What a worker counts where growth matters: those that still learn count wholly."""
    return options.converged_weight if category is Category.CONVERGED else 1.0


def weight(job: Job, options: CostOptions) -> float:
    return weight_of(category_of(job), options) if options.mode is CostMode.GROWTH else 1.0
