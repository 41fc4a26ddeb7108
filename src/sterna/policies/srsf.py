"""Shortest remaining service first: least time left times GPUs held meanwhile. Sizes jobs, nothing more.

Sources: the SRSF of AFS' simulator and the `shortest-gpu` of Tiresias': as `srtf`, with time multiplied by size.

Departures: ties go by submission and id; a job whose work left nobody knows goes last; where a job asks for none of
what the pool is short of, its workers are counted instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import option
from sterna.policies.sharing import SIZES, Size, contenders, largest_size, whole_or_nothing_by


@dataclass(frozen=True, slots=True)
class SrsfOptions:
    size: Size = option(Size.MAX, "what a job gets: its min, its initial size, or its max")


def shortest_remaining_service_first(view: Snapshot, options: SrsfOptions) -> Target:
    size_of = SIZES[options.size]
    jobs = contenders(view)
    keys = services_left(jobs, view.now_s, size_of)
    grants, _ = whole_or_nothing_by(keys, jobs, view.capacity, view.currency, size_of)
    return Target(grants, memory=view.memory)


def services_left(jobs: list[Job], now_s: float, size_of: Callable[[Job], int]) -> list[float]:
    """GPU-milliseconds left of each at `size_of(job)`; infinite if nobody knows."""
    if size_of is largest_size:  # the usual case, spelled out: `times_left` times the job's width
        return [(job.left_s - (now_s - job.since_s) * job.left_slope) * job.spec.width_largest for job in jobs]
    return [
        (workers := size_of(job)) * (job.spec.request.gpu_milli or WHOLE_GPU_MILLI) * job.remaining_s(workers, now_s)
        for job in jobs
    ]
