"""Shortest remaining time first, each job at the one size it may have. Sizes jobs, nothing more.

Sources: the SRTF of AFS' simulator and the `shortest` of Tiresias': order by the time left at the size a job would
get, the whole of it or nothing, later jobs may skip ahead, running ones may be preempted.

Departures: ties go by submission and id; a job whose work left nobody knows goes last. Unlike `srjf`, which counts on
a single worker as Voda does, time is counted at the size that is given.
"""

from dataclasses import dataclass

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import option
from sterna.policies.sharing import SIZES, Size, contenders, largest_size, times_left, whole_or_nothing_by


@dataclass(frozen=True, slots=True)
class SrtfOptions:
    size: Size = option(Size.MAX, "what a job gets: its min, its initial size, or its max")


def shortest_remaining_time_first(view: Snapshot, options: SrtfOptions) -> Target:
    now_s, size_of = view.now_s, SIZES[options.size]
    jobs = contenders(view)
    if size_of is largest_size:
        left_s = times_left(jobs, now_s)
    else:
        left_s = [job.remaining_s(size_of(job), now_s) for job in jobs]
    grants, _ = whole_or_nothing_by(left_s, jobs, view.capacity, view.currency, size_of)
    return Target(grants, memory=view.memory)
