"""Optimus: each next worker goes where it shortens a job's remaining time most. Sizes jobs, nothing more.

Source: the allocation of Optimus (EuroSys 2018) as the simulators of AFS and Pollux have it: the fall from no worker
to the first is infinite, so every job gets one in order of arrival; then the largest fall wins, the earliest job on a
tie, until no job gains.

Departures: the first helping is the job's minimum, later ones are its step, and falls are compared per GPU, since
steps differ in price. Jobs whose work left is unknown have no fall to compare: they share in turn what the others
leave.
"""

from heapq import heapify, heappop, heapreplace
from math import inf

from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI, Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.policies.options import NoOptions
from sterna.policies.sharing import (
    granted,
    seatable_size,
    size_that_gains,
    smallest_size,
    spread_spare_room,
    whole_or_nothing,
)


def optimus(view: Snapshot, options: NoOptions) -> Target:
    currency = view.currency
    grants, room = whole_or_nothing(view, smallest_size)
    jobs = granted(view, grants)
    units = [job.units_left_at(view.now_s) for job in jobs]
    sizes = [job.spec.workers_min for job in jobs]
    for position, (job, left) in enumerate(zip(jobs, units, strict=True)):
        if not job.spec.request[currency] and 0 < left < inf:  # what costs nothing is worth having while it helps
            most = seatable_size(view, job.spec)
            sizes[position] = size_that_gains(job.curve, sizes[position], job.spec.workers_step, most)
    room = _hand_out_steps(jobs, units, sizes, room, currency)
    for job, size in zip(jobs, sizes, strict=True):
        if size > job.spec.workers_min:
            grants[job.spec.id] = Grant(size, job.spec.workers_min, _BEST_GAIN)
    unknown = [job for job, left in zip(jobs, units, strict=True) if left == inf]
    spread_spare_room(unknown, grants, room, currency)
    return Target(grants, memory=view.memory)


_BEST_GAIN = Because(Why.BEST_GAIN)


def _hand_out_steps(jobs: list[Job], units: list[float], sizes: list[int], room: int, currency: Currency) -> int:
    """Raise `sizes` step by step, the largest fall first; returns the room that is left.

    A heap does what a scan of all jobs for every step would, because a step changes only the taker's fall.
    """
    falls = [_fall(job, left, size, currency) for job, left, size in zip(jobs, units, sizes, strict=True)]
    heap = [(-fall, position) for position, fall in enumerate(falls) if fall > 0]
    heapify(heap)
    while heap:
        position = heap[0][1]
        job = jobs[position]
        spec = job.spec
        cost = spec.request[currency] * spec.workers_step
        fall = 0.0
        if cost <= room:
            room -= cost
            sizes[position] += spec.workers_step
            fall = _fall(job, units[position], sizes[position], currency)
        if fall > 0:
            heapreplace(heap, (-fall, position))
        else:
            heappop(heap)  # it gains no more, or cannot afford a step: room never comes back
    return room


def _fall(job: Job, units: float, size: int, currency: Currency) -> float:
    """Seconds of remaining time that one step saves, per GPU of it; 0 at the maximum, if the work left is unknown, or
    if the step costs nothing: such steps were taken before."""
    spec, curve = job.spec, job.curve
    larger = size + spec.workers_step
    milli = spec.request[currency] * spec.workers_step
    if larger > spec.workers_max or units == inf or not milli:
        return 0.0
    saved_s = units * curve.unit_s(size) - units * curve.unit_s(larger)
    return saved_s / (milli / WHOLE_GPU_MILLI)
