"""Shortest remaining job first: the minimum or nothing. Sizes jobs, nothing more.

Source: Voda's SRJF, which orders by the time left on a single worker and lets later jobs skip ahead.

Departures: ties go by submission and id; a job whose work left nobody knows goes last, where Voda guessed one second
an epoch and thereby let newcomers of unknown length go first.
"""

from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import contenders, smallest_size, whole_or_nothing_by


def shortest_remaining_first(view: Snapshot, options: NoOptions) -> Target:
    jobs = contenders(view)
    keys = single_worker_times(jobs, view.now_s)
    grants, _ = whole_or_nothing_by(keys, jobs, view.capacity, view.currency, smallest_size)
    return Target(grants, memory=view.memory)


def single_worker_times(jobs: list[Job], now_s: float) -> list[float]:
    """Time left of each on one worker; infinite if nobody knows."""
    return [(job.left_s - (now_s - job.since_s) * job.left_slope) * job.solo for job in jobs]
