"""Shortest remaining service first: least time left times GPUs held meanwhile. Sizes jobs, nothing more.

Sources: the SRSF of AFS' simulator and the `shortest-gpu` of Tiresias': as `srtf`, with time multiplied by size.

Departures: ties go by submission and id; a job whose work left is unknown goes last; where a job asks for none of
what the pool is short of, its workers are counted instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from sterna.model.columns import Floats, Question
from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import option
from sterna.policies.sharing import SIZES, Size, ascending, largest_size, times_left, whole_or_nothing


@dataclass(frozen=True, slots=True)
class SrsfOptions:
    size: Size = option(Size.MAX, "what a job gets: its min, its initial size, or its max")


def shortest_remaining_service_first(view: Snapshot, options: SrsfOptions) -> Target:
    size_of = SIZES[options.size]
    grants, _ = whole_or_nothing(view, size_of, ascending(services_left(view, size_of)))
    return Target(grants, memory=view.memory, whole=options.size)


_width_largest: Question = attrgetter("spec.width_largest")


def services_left(view: Snapshot, size_of: Callable[[Job], int]) -> Floats:
    """GPU-milliseconds left of each at `size_of(job)`; infinite if unknown."""
    if size_of is largest_size:
        return times_left(view) * view.columns.of(_width_largest)
    now_s = view.now_s
    return np.array(
        [
            (size := size_of(job)) * (job.spec.request.gpu_milli or WHOLE_GPU_MILLI) * job.remaining_s(size, now_s)
            for job in view.wanting
        ]
    )
