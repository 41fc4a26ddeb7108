"""Shortest remaining time first, each job at the one size it may have. Sizes jobs, nothing more.

Sources: the SRTF of AFS' simulator and the `shortest` of Tiresias': order by the time left at the size a job would
get, the whole of it or nothing, later jobs may skip ahead, running ones may be preempted.

Departures: ties go by submission and id; a job whose work left is unknown goes last. Unlike `srjf`, which counts on
a single worker as Voda does, time is counted at the size that is given.
"""

from dataclasses import dataclass

import numpy as np

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import option
from sterna.policies.sharing import SIZES, Size, ascending, largest_size, times_left, whole_or_nothing


@dataclass(frozen=True, slots=True)
class SrtfOptions:
    size: Size = option(Size.MAX, "what a job gets: its min, its initial size, or its max")


def shortest_remaining_time_first(view: Snapshot, options: SrtfOptions) -> Target:
    now_s, size_of = view.now_s, SIZES[options.size]
    if size_of is largest_size:
        left_s = times_left(view)
    else:
        left_s = np.array([job.remaining_s(size_of(job), now_s) for job in view.wanting])
    grants, _ = whole_or_nothing(view, size_of, ascending(left_s))
    return Target(grants, memory=view.memory, whole=options.size)
