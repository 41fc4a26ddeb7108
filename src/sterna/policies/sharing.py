"""Ways of sharing room out, and the orders and sizes that several policies have in common.

Amounts are in the pool's currency. A job's fixed roles are paid for together with its first worker. An order is an
array of places in `view.wanting`, which is by (submission, id); sorts are stable, so every tie ends in the id.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from math import inf
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from sterna.model.columns import Floats, Question
from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec
from sterna.model.resources import Currency, Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.model.why import NEXT_IN_ORDER, SPARE_ROOM

Positions = npt.NDArray[np.intp]


class Size(StrEnum):
    """What a policy that does not stretch jobs gives each of them."""

    MIN = "min"
    INITIAL = "initial"
    MAX = "max"


def contenders(view: Snapshot) -> list[Job]:
    """Jobs that take part in sharing out, by (submission, id)."""
    return list(view.wanting)


smallest_size: Callable[[Job], int] = attrgetter("spec.workers_min")
initial_size: Callable[[Job], int] = attrgetter("spec.size_asked")
largest_size: Callable[[Job], int] = attrgetter("spec.size_largest")

SIZES: dict[Size, Callable[[Job], int]] = {
    Size.MIN: smallest_size,
    Size.INITIAL: initial_size,
    Size.MAX: largest_size,
}

# First come, first served as in AFS: by when a job last went from nothing to something, then waiting jobs.
seat_order: Question = attrgetter("seat_s")

_left_s: Question = attrgetter("left_s")
_left_slope: Question = attrgetter("left_slope")
_since_s: Question = attrgetter("since_s")


def times_left(view: Snapshot) -> Floats:
    """Time to the end of each job at its largest size; a pause that is being paid for counts as time, too."""
    columns = view.columns
    return columns.of(_left_s) - (view.now_s - columns.of(_since_s)) * columns.of(_left_slope)


def attained(view: Snapshot, *, since_start: bool) -> Floats:
    """GPU-seconds that each job has used, in all or since it last started."""
    columns = view.columns
    used = columns.of(_gpu_s_since_start if since_start else _gpu_s)
    return used + columns.of(_service_rate) * np.maximum(view.now_s - columns.of(_as_of_s), 0.0)


def first_start(job: Job) -> float:
    """When a job first ran; infinite if it never did, so that it sorts last."""
    return inf if job.first_started_s is None else job.first_started_s


holds: Question = attrgetter("size")

_as_of_s: Question = attrgetter("as_of_s")
_gpu_s: Question = attrgetter("gpu_s")
_gpu_s_since_start: Question = attrgetter("gpu_s_since_start")
_service_rate: Question = attrgetter("service_rate")


def ascending(keys: Floats) -> Positions:
    """Positions by the key in the same place; equal ones stay in their order."""
    return keys.argsort(kind="stable")


def by_seat(view: Snapshot) -> Positions:
    return ascending(view.columns.of(seat_order))


_REQUESTS: dict[Callable[[Job], int], Callable[[Job], Resources]] = {  # what these sizes take, fixed roles included
    smallest_size: attrgetter("spec.min_request"),
    initial_size: attrgetter("spec.asked_request"),
    largest_size: attrgetter("spec.largest_request"),
}


@cache
def cost_question(size_of: Callable[[Job], int], currency: Currency) -> Question:
    """What does a job of this size cost?"""
    request_of, scarce = _REQUESTS[size_of], int(currency)  # an enum is slow as an index
    return lambda job: request_of(job)[scarce]


def price(job: Job, workers: int, currency: Currency) -> int:
    """What so many workers of this job cost, fixed roles included."""
    if workers <= 0:
        return 0
    spec = job.spec
    cost = spec.request[currency] * workers
    return cost + spec.fixed_request[currency] if spec.fixed else cost


def whole_or_nothing(
    view: Snapshot, size_of: Callable[[Job], int], order: Positions | None = None, *, strict: bool = False
) -> tuple[dict[JobId, Grant], int]:
    """Give each job in turn `size_of(job)` workers if they fit, else nothing; returns the grants and what is left.

    Without an order jobs come by (submission, id). With `strict` the first job that does not fit blocks all behind it,
    unless all the room would not be enough for it: a job that can never start must not stop the cluster.
    """
    places, room = served(view, size_of, order, strict=strict)
    offers = view.columns.each(offer_of(size_of))
    return dict([offers[place] for place in places]), room


def served(
    view: Snapshot, size_of: Callable[[Job], int], order: Positions | None = None, *, strict: bool = False
) -> tuple[list[int], int]:
    """Jobs to which `whole_or_nothing` gives something, by their places; and what is left."""
    costs = view.columns.of(cost_question(size_of, view.currency))
    if len(costs) < _LONG or strict:
        return _served_in_turn(view, costs, order, strict=strict)
    places, room = _taken(costs if order is None else costs[order], view.capacity)
    return (places if order is None else order[places]).tolist(), room


_LONG = 512  # from here on vectors are worth their making


def _served_in_turn(view: Snapshot, costs: Floats, order: Positions | None, *, strict: bool) -> tuple[list[int], int]:
    """Positions of jobs that get something, one after the other: for short queues, and for strict ones."""
    room = view.capacity
    least, free = view.smallest_minimum[view.currency], float(room)
    in_turn = range(len(costs)) if order is None else order.tolist()
    places: list[int] = []
    for place, cost in zip(in_turn, (costs if order is None else costs[order]).tolist(), strict=True):
        if cost <= free:
            places.append(place)
            free -= cost
            if free < least:
                break  # no other job could take anything
        elif strict and cost <= room:
            break
    return places, int(free)


def _taken(costs: Floats, room: int) -> tuple[Positions, int]:
    """The same for long queues: whole stretches that fit are taken at once, and those that do not are jumped over.

    Costs are never negative; they and their sums are whole numbers, which floats hold exactly.
    """
    taken: list[Positions] = [np.empty(0, np.intp)]
    start = 0
    while start < len(costs):
        fitting = int(np.searchsorted(np.cumsum(costs[start:]), room, side="right"))
        taken.append(np.arange(start, start + fitting))
        room -= int(costs[start : start + fitting].sum())
        start += fitting
        affordable = costs[start:] <= room
        ahead = int(affordable.argmax()) if len(affordable) else 0
        if not len(affordable) or not affordable[ahead]:
            break
        start += ahead
    return np.concatenate(taken), room


@lru_cache(maxsize=4096)
def whole(workers: int) -> Grant:
    """So many workers or none. Kept, because the same few grants are given over and over again."""
    return Grant(workers, workers, NEXT_IN_ORDER)


@cache
def offer_of(size_of: Callable[[Job], int]) -> Callable[[Job], tuple[JobId, Grant]]:
    """What `whole_or_nothing` would give a job, beside its id."""
    return lambda job: (job.spec.id, whole(size_of(job)))


def fill_in_order(view: Snapshot, order: Positions) -> dict[JobId, Grant]:
    """Give each job in turn as much as it may have and there still is; those whose minimum does not fit get nothing."""
    grants: dict[JobId, Grant] = {}
    room, scarce, jobs = view.capacity, int(view.currency), view.wanting
    least = view.smallest_minimum[scarce]
    for place in order.tolist():
        if room < least:
            break
        job = jobs[place]
        spec = job.spec
        each = spec.request[scarce]
        base = spec.fixed_request[scarce] if spec.fixed else 0
        workers = largest_size(job)
        if base + each * workers > room:
            workers = spec.allowed_size((room - base) // each) if each else 0
        if workers:
            grants[spec.id] = Grant(workers, spec.workers_min, NEXT_IN_ORDER)
            room -= base + each * workers
    return grants


def seatable_size(view: Snapshot, spec: JobSpec) -> int:
    """The largest size that the pool could hold if all of it were this job's: growth beyond it is a mere number.

    A policy that takes step after step is thereby bounded by the room and not by what an owner wrote as a maximum.
    """
    most = spec.workers_max
    for have, each in zip(view.cluster.room[:3], spec.request[:3], strict=True):
        if each:
            most = min(most, have // each)
    return max(spec.workers_min, spec.allowed_size(most))


def size_that_gains(curve: SpeedupCurve, size: int, step: int, largest: int) -> int:
    """The size up to which each step makes a job faster, from one that it may have: where steps cost nothing scarce."""
    known = max(size, min(largest, curve.known_to + step))  # beyond its end a curve is flat
    sizes = np.arange(size, known + 1, step)
    pace_s = np.array(curve.pace_s[: known + 1])[np.minimum(sizes, curve.known_to) - 1]
    slower = np.nonzero(np.diff(pace_s) >= 0)[0]
    return int(sizes[slower[0]] if len(slower) else sizes[-1])


def granted(view: Snapshot, grants: Mapping[JobId, Grant]) -> list[Job]:
    """The jobs that hold a grant, in the order of the grants."""
    jobs = view.by_id
    return [jobs[job_id] for job_id in grants]


def spread_spare_room(order: Sequence[Job], grants: dict[JobId, Grant], room: int, currency: Currency) -> int:
    """Round robin over these jobs, which all hold a grant, one step each until none can take more; changes `grants`.

    Returns what is left. Rounds in which every job that may still grow gets a step are taken all at once; in the round
    after them some job cannot afford a step and leaves, since room never comes back. So the cost is that of a few
    sorts, however much room there is.
    """
    growing: list[tuple[int, int, JobSpec]] = []
    for job in order:
        spec = job.spec
        cost = spec.request[currency] * spec.workers_step
        if cost <= room:
            steps = (spec.workers_max - grants[spec.id].workers) // spec.workers_step
            if steps:
                growing.append((steps, cost, spec))
    while growing:
        growing, room = _take_rounds(growing, grants, room)
    return room


def _take_rounds(
    growing: list[tuple[int, int, JobSpec]], grants: dict[JobId, Grant], room: int
) -> tuple[list[tuple[int, int, JobSpec]], int]:
    """All full rounds and the one after them; returns jobs that may still grow, and room left. Entries: steps, cost."""
    rounds = _full_rounds(growing, room)
    room -= sum((rounds if rounds < steps else steps) * cost for steps, cost, _ in growing)
    still: list[tuple[int, int, JobSpec]] = []
    for steps, cost, spec in growing:
        taken = rounds if rounds < steps else steps
        if taken < steps and cost <= room:
            room -= cost
            taken += 1
            if taken < steps:
                still.append((steps - taken, cost, spec))
        if taken:
            workers, floor, _ = grants[spec.id]
            grants[spec.id] = Grant(workers + taken * spec.workers_step, floor, SPARE_ROOM)
    return still, room


def _full_rounds(growing: list[tuple[int, int, JobSpec]], room: int) -> int:
    """How often can every job that may still grow take a step?"""
    done = 0
    sweep = sum(cost for _, cost, _ in growing)
    for steps, cost in sorted((steps, cost) for steps, cost, _ in growing):
        cost_up_to = (steps - done) * sweep
        if cost_up_to > room:
            return done + room // sweep
        room -= cost_up_to
        done = steps
        sweep -= cost
    return done
