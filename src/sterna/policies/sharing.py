"""Ways of sharing room out, and the orders and sizes that several policies have in common.

Amounts are in the pool's currency. A job's fixed roles are paid for together with its first worker. Orders are made
by stable sorts of `contenders`, which come by (submission, id): so every tie ends in the id, whatever the input order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec
from sterna.model.resources import Currency, Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.model.why import NEXT_IN_ORDER, SPARE_ROOM


class Size(StrEnum):
    """What a policy that does not stretch jobs gives each of them."""

    MIN = "min"
    INITIAL = "initial"
    MAX = "max"


def contenders(view: Snapshot) -> list[Job]:
    """Jobs that take part in sharing out, by (submission, id)."""
    return list(view.wanting)


# First come, first served as in AFS: by when a job last went from nothing to something, then whoever waits.
seat_order: Callable[[Job], float] = attrgetter("seat_s")

smallest_size: Callable[[Job], int] = attrgetter("spec.workers_min")
initial_size: Callable[[Job], int] = attrgetter("spec.size_asked")
largest_size: Callable[[Job], int] = attrgetter("spec.size_largest")

_REQUESTS: dict[Callable[[Job], int], Callable[[Job], Resources]] = {  # what these sizes take, fixed roles included
    smallest_size: attrgetter("spec.min_request"),
    initial_size: attrgetter("spec.asked_request"),
    largest_size: attrgetter("spec.largest_request"),
}
SIZES: dict[Size, Callable[[Job], int]] = {
    Size.MIN: smallest_size,
    Size.INITIAL: initial_size,
    Size.MAX: largest_size,
}


def sorted_by(jobs: list[Job], keys: list[float]) -> list[Job]:
    """Jobs by the key in the same place; equal ones stay in their order."""
    return [jobs[at] for at in sorted(range(len(jobs)), key=keys.__getitem__)]


def times_left(jobs: list[Job], now_s: float) -> list[float]:
    """Time to the end of each job at its largest size; a pause that is being paid for counts as time, too."""
    return [job.left_s - (now_s - job.since_s) * job.left_slope for job in jobs]


def price(job: Job, workers: int, currency: Currency) -> int:
    """What so many workers of this job cost, fixed roles included."""
    if workers <= 0:
        return 0
    spec = job.spec
    cost = spec.request[currency] * workers
    return cost + spec.fixed_request[currency] if spec.fixed else cost


def whole_or_nothing(
    order: Sequence[Job], room: int, currency: Currency, size_of: Callable[[Job], int], *, strict: bool = False
) -> tuple[dict[JobId, Grant], int]:
    """Give each job in turn `size_of(job)` workers if they fit, else nothing; returns the grants and what is left.

    With `strict` the first job that does not fit blocks all behind it, unless all the room would not be enough for
    it: a job that can never start must not stop the cluster.
    """
    if len(order) >= _LONG and not strict:
        return _whole_or_nothing_at_once(order, room, currency, size_of)
    grants: dict[JobId, Grant] = {}
    free, request_of = room, _REQUESTS[size_of]
    for job in order:
        cost = request_of(job)[currency]
        if cost <= free:
            grants[job.spec.id] = whole(size_of(job))
            free -= cost
        elif strict and cost <= room:
            break
    return grants, free


_LONG = 512  # from here on vectors are worth their making


def whole_or_nothing_by(
    keys: list[float], jobs: list[Job], room: int, currency: Currency, size_of: Callable[[Job], int]
) -> tuple[dict[JobId, Grant], int]:
    """`whole_or_nothing` by ascending key; equal ones stay in their order."""
    if len(jobs) >= _LONG:
        return _whole_or_nothing_at_once(jobs, room, currency, size_of, order=np.argsort(keys, kind="stable"))
    return whole_or_nothing(sorted_by(jobs, keys), room, currency, size_of)


def _whole_or_nothing_at_once(
    jobs: Sequence[Job],
    room: int,
    currency: Currency,
    size_of: Callable[[Job], int],
    *,
    order: npt.NDArray[np.int64] | None = None,
) -> tuple[dict[JobId, Grant], int]:
    """The same for long queues: whole stretches that fit are taken at once, and those that do not are jumped over.

    Jobs are looked at in the order they lie in memory, and of the sorted ones only those that get something.
    """
    costs = np.array([request[currency] for request in map(_REQUESTS[size_of], jobs)], np.int64)
    taken, room = _taken(costs if order is None else costs[order], room)
    places = taken if order is None else order[taken]
    return {(job := jobs[place]).spec.id: whole(size_of(job)) for place in places.tolist()}, room


def _taken(costs: npt.NDArray[np.int64], room: int) -> tuple[npt.NDArray[np.int64], int]:
    """Who gets something, if each in turn takes its cost or nothing; and what is left. Costs are never negative."""
    taken: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
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


def fill_in_order(order: Iterable[Job], room: int, currency: Currency) -> dict[JobId, Grant]:
    """Give each job in turn as much as it may have and there still is; those whose minimum does not fit get nothing."""
    grants: dict[JobId, Grant] = {}
    least = min((job.spec.min_request[currency] for job in order), default=0)
    for job in order:
        if room < least:
            break
        spec = job.spec
        each = spec.request[currency]
        base = spec.fixed_request[currency] if spec.fixed else 0
        workers = largest_size(job)
        if base + each * workers > room:
            workers = spec.allowed_size((room - base) // each) if each else 0
        if workers:
            grants[spec.id] = Grant(workers, spec.workers_min, NEXT_IN_ORDER)
            room -= base + each * workers
    return grants


def granted(view: Snapshot, grants: Mapping[JobId, Grant]) -> list[Job]:
    """The jobs that hold a grant, in the order of the grants."""
    jobs = view.by_id
    return [jobs[job_id] for job_id in grants]


def spread_spare_room(order: Sequence[Job], grants: dict[JobId, Grant], room: int, currency: Currency) -> int:
    """Round robin over these jobs, which all hold a grant, one step each until nobody can take more; changes `grants`.

    Returns what is left. Rounds in which everybody who may still grow gets a step are taken all at once; in the round
    after them somebody cannot afford a step and leaves, since room never comes back. So the cost is that of a few
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
    """All full rounds and the one after them; returns who may still grow, and the room left. Entries: steps, cost."""
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
    """How often can everybody who may still grow take a step?"""
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
