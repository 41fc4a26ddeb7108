"""DRAGON: first in, first out with skipping; room is made for a job that waited too long; idle room is grown into.

Source: Lin, Yeh and Chou, "DRAGON", CLOSER 2019, and its operator; the variants are its public forks and the paper's
own prototype. This module says which job is next, which is urgent and whether it is time to grow; because DRAGON
decides by what fits on nodes, the grants are wishes and `placement/dragon.py` settles how much of each comes true.

Departures, each a defect of the operator: an urgent request includes the fixed roles and not the workers alone; a job
that no empty cluster could hold gets a verdict and blocks no other; many jobs may start in one cycle; workers that are
still leaving count as room to come, so no job is shrunk twice for one need; sizes are on the job's own grid of steps;
ties end in the id, where the operator followed the order of a hash map.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import inf

from sterna.model.feasibility import cannot_start
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT, NEXT_IN_ORDER, SPARE_ROOM, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import ascending, holds, seat_order, smallest_size


class Variant(StrEnum):
    DRAGON = "dragon"
    BALANCED = "balanced"  # dragon-worker-balancing: take from the largest job, give to the smallest
    ERUDITE = "erudite"  # by priority instead of by waiting time
    PROTOTYPE = "prototype"  # the paper's: patient, and smallest minimum first among the overdue


@dataclass(frozen=True, slots=True)
class DragonOptions:
    variant: Variant = option(Variant.DRAGON, "dragon, balanced (fair shares), erudite (priorities) or prototype")
    starve_after_s: float = option(30.0, "room is made for the head of the queue after it waited this long", at_least=0)
    grow_after_s: float = option(60.0, "running jobs grow after this long without any change", at_least=0)
    prototype_starve_after_s: float = option(120.0, "the same wait in the prototype variant", at_least=0)

    @property
    def placement(self) -> str:
        """The placement that settles this variant's wishes."""
        return {
            Variant.DRAGON: "dragon",
            Variant.BALANCED: "dragon-balanced",
            Variant.ERUDITE: "dragon",
            Variant.PROTOTYPE: "dragon-prototype",
        }[self.variant]


def dragon(view: Snapshot, options: DragonOptions) -> Target:
    running, places = _by_turn(view, options)
    waiting = [view.wanting[place] for place in places]
    overdue = _overdue(view, waiting, running, options)
    left_out: dict[JobId, Because] = {}
    urgent = _urgent(view, overdue, left_out)
    memory = _begun(view)
    idle_since_s = memory.last_action_s if memory.last_action_s is not None else view.now_s
    time_to_grow = options.variant is Variant.ERUDITE or view.now_s - idle_since_s >= options.grow_after_s
    growing = time_to_grow and urgent is None
    if growing and options.variant is not Variant.ERUDITE:
        memory = replace(memory, last_action_s=view.now_s)  # one try a minute, whether or not it changes anything
    wishes = view.columns.each(_wish_of)
    grants = _grants(running, [wishes[place] for place in places], urgent, growing, options)
    for job_id in left_out:
        grants.pop(job_id, None)
    next_up = waiting[len(overdue)] if len(overdue) < len(waiting) else None
    wake_s = _next_wake(view, running, next_up, urgent, memory, options)
    return Target(
        grants,
        memory=memory,
        wake_s=wake_s,
        left_out=left_out,
        wishes=True,
        make_room_for=urgent.id if urgent else None,
    )


def _by_turn(view: Snapshot, options: DragonOptions) -> tuple[list[Job], list[int]]:
    """Jobs that run, and the places of those that wait, in the order in which they are served."""
    jobs, columns = view.wanting, view.columns
    holding = columns.of(holds) > 0
    by_seat, by_wait = ascending(columns.of(seat_order)), ascending(columns.of(_waiting_since))
    running = [jobs[place] for place in by_seat[holding[by_seat]].tolist()]
    waiting: list[int] = by_wait[~holding[by_wait]].tolist()
    if options.variant is Variant.ERUDITE:
        waiting.sort(key=lambda place: _by_priority(jobs[place]))
    return running, waiting


def _grants(
    running: list[Job], wishes: list[tuple[JobId, Grant]], urgent: Job | None, growing: bool, options: DragonOptions
) -> dict[JobId, Grant]:
    """Wishes, in the order in which placement serves them: the urgent job, what runs, what waits."""
    grants: dict[JobId, Grant] = {}
    if urgent is not None:
        whole = options.variant is Variant.BALANCED  # this fork makes room for all that was asked for
        floor = urgent.spec.size_asked if whole else urgent.spec.workers_min
        grants[urgent.id] = Grant(urgent.spec.size_asked, floor, Because(Why.STARVING))
    for job in running:
        size, largest = job.size_to_keep, job.spec.size_largest
        if growing and size < largest:
            grants[job.id] = Grant(largest, size, SPARE_ROOM)
        else:
            grants[job.id] = _wish(size, job.spec.workers_min, KEPT)
    head = None if urgent is None else grants[urgent.id]
    grants.update(wishes)
    if urgent is not None and head is not None:
        grants[urgent.id] = head  # it waits as well, and keeps its turn and what it was promised
    return grants


def _urgent(view: Snapshot, overdue: list[Job], left_out: dict[JobId, Because]) -> Job | None:
    """The job for which others may be cut down; jobs that could never start are passed over with a verdict."""
    for job in overdue:
        verdict = cannot_start(view, job)
        if verdict is None:
            return job
        left_out[job.id] = verdict
    return None


def _overdue(view: Snapshot, waiting: list[Job], running: list[Job], options: DragonOptions) -> list[Job]:
    if options.variant is Variant.ERUDITE:
        highest = max((job.spec.priority for job in running), default=-inf)
        return [job for job in waiting if job.spec.priority > highest][:1]
    now_s, patience_s = view.now_s, _patience_s(options)
    overdue = waiting[: bisect_left(waiting, True, key=lambda job: job.waited_s(now_s) < patience_s)]  # by wait
    if options.variant is Variant.PROTOTYPE:
        overdue.sort(key=smallest_size)
    return overdue


def _patience_s(options: DragonOptions) -> float:
    return options.prototype_starve_after_s if options.variant is Variant.PROTOTYPE else options.starve_after_s


def _begun(view: Snapshot) -> PolicyMemory:
    """Idle time is counted from the first cycle on, where nothing was ever done."""
    memory = view.memory
    return memory if memory.last_action_s is not None else replace(memory, last_action_s=view.now_s)


def _next_wake(
    view: Snapshot,
    running: list[Job],
    next_up: Job | None,
    urgent: Job | None,
    memory: PolicyMemory,
    options: DragonOptions,
) -> float | None:
    """The next moment at which waiting or idling alone changes the answer."""
    moments: list[float] = []
    if options.variant is not Variant.ERUDITE:
        patience_s = _patience_s(options)
        if next_up is not None and next_up.waiting_since_s is not None:
            moments.append(next_up.waiting_since_s + patience_s)
        can_grow = any(job.size_to_keep < job.spec.size_largest for job in running)
        if can_grow and urgent is None and memory.last_action_s is not None:
            moments.append(memory.last_action_s + options.grow_after_s)
    return min((moment for moment in moments if moment > view.now_s), default=None)


_wish = lru_cache(maxsize=4096)(Grant)  # the same few over and over again


def _wish_of(job: Job) -> tuple[JobId, Grant]:
    """What a job that waits would like to have, beside its id."""
    spec = job.spec
    return spec.id, _wish(spec.size_asked, spec.workers_min, NEXT_IN_ORDER)


def _waiting_since(job: Job) -> float:
    return inf if job.waiting_since_s is None else job.waiting_since_s


def _by_priority(job: Job) -> tuple[int, int, float]:
    """Erudite: higher priority first, then the larger request, then the longer wait."""
    spec = job.spec
    return (-spec.priority, -(spec.asked_request.cpu_milli + spec.asked_request.memory_bytes), _waiting_since(job))
