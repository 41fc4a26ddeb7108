"""DRAGON: first in, first out with skipping; room is made for a job that waited too long; idle room is grown into.

Source: Lin, Yeh and Chou, "DRAGON", CLOSER 2019, and its operator; the variants are its public forks and the paper's
own prototype. This module says who is next, who is urgent and whether it is time to grow; because DRAGON decides by
what fits on nodes, the grants are wishes and `placement/dragon.py` settles how much of each comes true.

Departures, each a defect of the operator: an urgent request includes the fixed roles and not the workers alone; a job
that no empty cluster could hold gets a verdict and blocks nobody; many jobs may start in one cycle; workers that are
still leaving count as room to come, so nobody is shrunk twice for one need; sizes never exceed the maximum; ties end in
the id, where the operator followed the order of a hash map.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from math import inf

from sterna.model.feasibility import never_fits
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT, NEXT_IN_ORDER, SPARE_ROOM, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import contenders, seat_order, smallest_size


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
    jobs = contenders(view)
    running = [job for job in jobs if job.size]
    running.sort(key=seat_order)  # these sorts are stable: equal jobs stay by (submission, id)
    waiting = [job for job in jobs if not job.size]
    waiting.sort(key=_by_priority if options.variant is Variant.ERUDITE else _by_wait)
    left_out: dict[JobId, Because] = {}
    urgent = _urgent(view, waiting, running, options, left_out)
    memory = _begun(view)
    idle_since_s = memory.last_action_s if memory.last_action_s is not None else view.now_s
    time_to_grow = options.variant is Variant.ERUDITE or view.now_s - idle_since_s >= options.grow_after_s
    growing = time_to_grow and urgent is None
    if growing and options.variant is not Variant.ERUDITE:
        memory = replace(memory, last_action_s=view.now_s)  # one try a minute, whether or not it changes anything
    grants = _grants(running, waiting, urgent, growing, options)
    for job_id in left_out:
        grants.pop(job_id, None)
    wake_s = _next_wake(view, running, waiting, urgent, memory, options)
    return Target(grants, memory=memory, wake_s=wake_s, left_out=left_out, make_room_for=urgent.id if urgent else None)


def _grants(
    running: list[Job], waiting: list[Job], urgent: Job | None, growing: bool, options: DragonOptions
) -> dict[JobId, Grant]:
    """Wishes, in the order in which placement serves them: the urgent job, what runs, what waits."""
    grants: dict[JobId, Grant] = {}
    if urgent is not None:
        whole = options.variant is Variant.BALANCED  # this fork makes room for all that was asked for
        floor = urgent.spec.workers_initial if whole else urgent.spec.workers_min
        grants[urgent.id] = Grant(urgent.spec.workers_initial, floor, Because(Why.STARVING))
    for job in running:
        size = job.size
        if growing and size < job.spec.workers_max:
            grants[job.id] = Grant(job.spec.workers_max, min(size, job.spec.workers_max), SPARE_ROOM)
        else:
            grants[job.id] = _wish(size, min(size, job.spec.workers_min), KEPT)
    for job in waiting:
        spec = job.spec
        if spec.id not in grants:
            grants[spec.id] = _wish(spec.workers_initial, spec.workers_min, NEXT_IN_ORDER)
    return grants


def _urgent(
    view: Snapshot, waiting: list[Job], running: list[Job], options: DragonOptions, left_out: dict[JobId, Because]
) -> Job | None:
    """The job for which others may be cut down; jobs that could never start are passed over with a verdict."""
    candidates = _overdue(view, waiting, running, options)
    for job in candidates:
        verdict = never_fits(view, job)
        if verdict is None:
            return job
        left_out[job.id] = verdict
    return None


def _overdue(view: Snapshot, waiting: list[Job], running: list[Job], options: DragonOptions) -> list[Job]:
    if options.variant is Variant.ERUDITE:
        highest = max((job.spec.priority for job in running), default=-inf)
        return [job for job in waiting if job.spec.priority > highest][:1]
    patience_s = _patience_s(options)
    overdue = list(takewhile(lambda job: job.waited_s(view.now_s) >= patience_s, waiting))  # they come first
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
    waiting: list[Job],
    urgent: Job | None,
    memory: PolicyMemory,
    options: DragonOptions,
) -> float | None:
    """The next moment at which waiting or idling alone changes the answer."""
    moments: list[float] = []
    if options.variant is not Variant.ERUDITE:
        patience_s = _patience_s(options)
        next_up = next((job for job in waiting if job.waited_s(view.now_s) < patience_s), None)
        if next_up is not None and next_up.waiting_since_s is not None:
            moments.append(next_up.waiting_since_s + patience_s)
        can_grow = any(job.size < job.spec.workers_max for job in running)
        if can_grow and urgent is None and memory.last_action_s is not None:
            moments.append(memory.last_action_s + options.grow_after_s)
    return min((moment for moment in moments if moment > view.now_s), default=None)


_wish = lru_cache(maxsize=4096)(Grant)  # the same few over and over again


def _by_wait(job: Job) -> float:
    return inf if job.waiting_since_s is None else job.waiting_since_s


def _by_priority(job: Job) -> tuple[int, int, float]:
    """Erudite: higher priority first, then the larger request, then whoever waits longer."""
    spec = job.spec
    return (-spec.priority, -(spec.asked_request.cpu_milli + spec.asked_request.memory_bytes), _by_wait(job))
