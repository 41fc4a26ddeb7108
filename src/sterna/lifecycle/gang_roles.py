"""The members of a gang by what they are to each other: the leader, rank 0, and those that the others need."""

from collections.abc import Iterable

from sterna.model.jobs import FixedRole, Role, Worker
from sterna.model.workload import Contract, RoleTemplate, Workload

TAKES_PART = (Role.MASTER, Role.CHIEF, Role.WORKER)  # in the collective, and in this order: rank 0 is the leader's

_STARTS_FIRST = (Role.PS, Role.MASTER, Role.CHIEF, Role.LAUNCHER, Role.WORKER, Role.EVALUATOR)

Place = tuple[Role, int]  # role and ordinal


def size_of(workers: Iterable[Worker]) -> int:
    """How many elastic workers are among these."""
    return sum(worker.role is Role.WORKER for worker in workers)


def seat_order(worker: Worker) -> tuple[bool, Worker]:
    """As seats are listed wherever a job's workers are gathered: fixed roles first, then by ordinal."""
    return worker.role is Role.WORKER, worker


def start_order(worker: Worker) -> tuple[int, int]:
    """As workers are started: first those that the others look for."""
    return _STARTS_FIRST.index(worker.role), worker.ordinal


def carriers(workload: Workload, workers: Iterable[Worker]) -> frozenset[Place]:
    """Those without which the others cannot train on: when one of them goes, all begin anew."""
    match workload.contract:
        case Contract.RESTART:
            return frozenset(worker[:2] for worker in workers)
        case Contract.PARAMETER_SERVER:
            return frozenset(worker[:2] for worker in workers if worker.role is Role.PS)
        case Contract.TORCHRUN:
            first = first_rank(workers)  # it holds the store that all meet at
            return frozenset() if first is None else frozenset({first[:2]})
        case Contract.DISCOVERY:
            return frozenset()


def first_rank(workers: Iterable[Worker]) -> Worker | None:
    """Rank 0. None: no worker takes part."""
    return min(
        (worker for worker in workers if worker.role in TAKES_PART),
        key=lambda worker: (TAKES_PART.index(worker.role), worker.ordinal),
        default=None,
    )


def leader_of(workload: Workload, workers: Iterable[Worker]) -> Place | None:
    """The worker whose success is the job's. None: there is none."""
    places = sorted(worker[:2] for worker in workers)
    for role in (Role.CHIEF, Role.MASTER, Role.LAUNCHER):
        if found := [place for place in places if place[0] is role]:
            return found[0]
    ordinals = [ordinal for role, ordinal in places if role is Role.WORKER]
    if not ordinals:
        return None
    return Role.WORKER, 0 if workload.contract is Contract.PARAMETER_SERVER else min(ordinals)


def is_whole(workload: Workload, workers: Iterable[Worker]) -> bool:
    """Can a job with these start at all: is every fixed role there, and at least one worker?"""
    held = {worker[:2] for worker in workers}
    return fixed_places(workload.roles) <= held and any(role is Role.WORKER for role, _ in held)


def fixed_places(roles: Iterable[RoleTemplate | FixedRole]) -> frozenset[Place]:
    """Of all roles but the elastic one."""
    return frozenset(
        (found.role, ordinal) for found in roles if found.role is not Role.WORKER for ordinal in range(found.replicas)
    )
