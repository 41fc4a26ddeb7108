"""The members of a job and how each is reached: the list that every environment is made from.

Hosts and ports are the caller's: loopback and a port of its own on one machine, a service's name in a cluster. Which
workers there should be is the scheduler's question; here they are only put in order and numbered.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from sterna.lifecycle.gang_roles import TAKES_PART
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Workload


class Member(NamedTuple):
    """One worker and its address."""

    role: Role
    ordinal: int
    host: str
    port: int
    chief_port: int | None = None  # of a parameter server with the chief beside it; None: the port after `port`


class RankInWorld(NamedTuple):
    rank: int
    size: int  # of the world: how many ranks there are


def places_of(workload: Workload, workers: Iterable[int]) -> tuple[tuple[Role, int], ...]:
    """Role and ordinal of every member, fixed roles first, when the job holds the elastic workers of these ordinals."""
    fixed = [
        (template.role, ordinal)
        for template in workload.roles
        if template.role is not Role.WORKER
        for ordinal in range(template.replicas)
    ]
    return (*fixed, *((Role.WORKER, ordinal) for ordinal in sorted(workers)))


def addresses_of(workload: Workload, workers: Iterable[int]) -> tuple[tuple[Role, int], ...]:
    """Which members must have an address before any starts, when the job is to hold the workers of these ordinals.

    Under the parameter-server contract that is every member that may ever come: the list in TF_CONFIG is the same for
    the job's whole life, so a newcomer's address must be known to those that started long before it.
    """
    if workload.contract is Contract.PARAMETER_SERVER:
        return places_of(workload, range(workload.workers_max))
    return places_of(workload, workers)


def place_in_world(role: Role, ordinal: int, members: Iterable[Member]) -> RankInWorld | None:
    """Rank and world size among `members`. None: a role that stands beside the training, like a launcher or a PS.

    Ranks have no gaps even where ordinals do.
    """
    if role not in TAKES_PART:
        return None
    ranks = _ranks(tuple(members))
    return RankInWorld(ranks[role, ordinal], len(ranks))


@lru_cache(maxsize=32)  # all members of a gang ask, one after the other
def _ranks(members: tuple[Member, ...]) -> dict[tuple[Role, int], int]:
    world = sorted((TAKES_PART.index(m.role), m.ordinal) for m in members if m.role in TAKES_PART)
    return {(TAKES_PART[role], ordinal): rank for rank, (role, ordinal) in enumerate(world)}


def of_role(role: Role, members: Iterable[Member]) -> list[Member]:
    """Those of one role, by ordinal."""
    return sorted((found for found in members if found.role is role), key=lambda found: found.ordinal)


def leader(members: Iterable[Member]) -> Member:
    """Rank 0: where the others meet."""
    return _leader(tuple(members))


@lru_cache(maxsize=32)
def _leader(members: tuple[Member, ...]) -> Member:
    return min(
        (found for found in members if found.role in TAKES_PART),
        key=lambda found: (TAKES_PART.index(found.role), found.ordinal),
    )
