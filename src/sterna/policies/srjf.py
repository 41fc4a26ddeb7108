"""Shortest remaining job first: the minimum or nothing. Sizes jobs, nothing more.

Source: Voda's SRJF, which orders by the time left on a single worker and lets later jobs skip ahead.

Departures: ties go by submission and id; a job whose work left nobody knows goes last, where Voda guessed one second
an epoch and thereby let newcomers of unknown length go first.
"""

from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import contenders, smallest_size, sorted_by, whole_or_nothing


def shortest_remaining_first(view: Snapshot, options: NoOptions) -> Target:
    grants, _ = whole_or_nothing(by_single_worker_time(view), view.capacity, view.currency, smallest_size)
    return Target(grants, memory=view.memory)


def by_single_worker_time(view: Snapshot) -> list[Job]:
    """Least time left on one worker first, unknown last."""
    now_s = view.now_s
    jobs = contenders(view)
    return sorted_by(jobs, [(job.left_s - (now_s - job.since_s) * job.left_slope) * job.solo for job in jobs])
