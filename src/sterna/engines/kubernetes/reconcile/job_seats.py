"""Seats: what a job is to hold, and which of its workers the others cannot do without. Pure functions."""

import hashlib
import string
from collections.abc import Iterable

from sterna.engines.contracts.members import TAKES_PART
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Contract, Workload

_LETTERS = string.ascii_lowercase
_SLOT_LENGTH = 5

Place = tuple[Role, int]


def seats_for(standing: Standing, workers: Iterable[Worker], *, uid: str, now_s: float) -> tuple[Seat, ...]:
    """Those who stay keep their slots, newcomers get new ones, which no seat of before has. `uid` is the job's.

    Slots follow from what is known rather than from chance: a decision that is carried out twice gives the same ones.
    """
    known = {seat.worker: seat for seat in standing.seats}
    taken = {seat.slot for seat in standing.seats}
    seats = []
    for worker in workers:
        seat = known.get(worker)
        if seat is None:
            seat = Seat(worker, _slot(f"{uid}/{worker.role}/{worker.ordinal}/{worker.node}/{now_s!r}", taken))
            taken.add(seat.slot)
        seats.append(seat)
    return tuple(seats)


def size_of(workers: Iterable[Worker]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def carriers(workload: Workload, workers: Iterable[Worker]) -> frozenset[Place]:
    """Those without whom the others cannot train on: when one of them goes, all begin anew."""
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
    """Rank 0. None: nobody takes part."""
    return min(
        (worker for worker in workers if worker.role in TAKES_PART),
        key=lambda worker: (TAKES_PART.index(worker.role), worker.ordinal),
        default=None,
    )


def leader_of(workload: Workload, workers: Iterable[Worker]) -> Place | None:
    """Whose success is the job's. None: nobody is there."""
    places = sorted(worker[:2] for worker in workers)
    for role in (Role.CHIEF, Role.MASTER, Role.LAUNCHER):
        if found := [place for place in places if place[0] is role]:
            return found[0]
    ordinals = [ordinal for role, ordinal in places if role is Role.WORKER]
    if not ordinals:
        return None
    return Role.WORKER, 0 if workload.contract is Contract.PARAMETER_SERVER else min(ordinals)


def is_whole(workload: Workload, workers: Iterable[Worker]) -> bool:
    """Can a job with these start at all: is every fixed role there, and somebody to do the work?"""
    held = {worker[:2] for worker in workers}
    fixed = fixed_places(workload)
    return fixed <= held and any(role is Role.WORKER for role, _ in held)


def fixed_places(workload: Workload) -> frozenset[Place]:
    return frozenset(
        (template.role, ordinal)
        for template in workload.roles
        if template.role is not Role.WORKER
        for ordinal in range(template.replicas)
    )


def _slot(seed: str, taken: set[str]) -> str:
    for attempt in range(1000):
        number = int.from_bytes(hashlib.sha256(f"{seed}/{attempt}".encode()).digest()[:8])
        slot = ""
        for _ in range(_SLOT_LENGTH):
            number, letter = divmod(number, len(_LETTERS))
            slot += _LETTERS[letter]
        if slot not in taken:
            break
    return slot
