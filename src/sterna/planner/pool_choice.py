"""Which pool a job that names no accelerator belongs to, and why: a decision of its own, made anew while it waits.

A job lives in one pool, and goes where its minimum fits: exactly, with selectors, taints, cards and fixed roles. Of
several pools the first in this order: one where it fits now; where it fits once others are at their minimum; where it
fits on empty nodes. Among those the cheapest: nodes without GPUs for jobs without; cards with less memory before cards
with more; then most free, then by name. A job that runs stays, unless its owner lets it move and it cannot stay.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from sterna.model.feasibility import Numbers, admitting, asks, cannot_start_on, what_is_short
from sterna.model.gangs import Space, gang_fits, gang_of, slots_in, spaces_beside
from sterna.model.ids import NodeId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.nodes import Cluster
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why
from sterna.placement.ruled_start import seats_at_least
from sterna.placement.shrinking import shrunk


class Fit(IntEnum):
    """How soon a job could start in a pool."""

    NOW = 0
    AFTER_OTHERS = 1  # beside what runs, but others that chose before it take that room
    AT_MINIMUM = 2  # once what runs is at its minimum
    PERHAPS = 3  # if the right workers go
    EVER = 4  # on empty nodes
    NEVER = 5


class Choice(NamedTuple):
    pool: str
    because: Because


class Pool(NamedTuple):
    name: str
    cluster: Cluster  # as it is for good: guests on it, and for jobs without GPUs only their share of it
    lane: bool  # the share of nodes with GPUs that jobs without GPUs may have

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.name or ("unnamed GPUs" if self.cluster.has_gpus else "nodes without GPUs")

    @property
    def card_bytes(self) -> int:
        """The largest card: what the pool is chosen for, and what it costs."""
        return max((card.memory_bytes for node in self.cluster.nodes for card in node.devices), default=0)


class PoolChoice:
    """The choices of one decision. Rooms are worked out once, and jobs that ask for the same are looked at once."""

    def __init__(self, view: Snapshot, pools: Iterable[Pool]) -> None:
        self._view = view
        self._pools = {pool.name: pool for pool in pools}
        self._spaces: dict[tuple[str, Fit], dict[NodeId, Space]] = {}
        self._fits: dict[tuple[object, ...], Fit] = {}
        self._claimed: dict[str, int] = {}
        self._free: dict[str, int] = {}

    def of(self, job: Job, among: list[str]) -> Choice:
        """The pool for a job that has no workers anywhere; it claims its minimum there."""
        ranked = sorted((self._rank(self._pools[name], job.spec), name) for name in among)
        (fit, *_), name = ranked[0]
        pool = self._pools[name]
        self._claimed[name] = self._claimed.get(name, 0) + job.spec.min_request[pool.cluster.currency]
        numbers = (("pool", pool.title), ("fits", _WORDS[Fit(fit)]), ("pools_looked_at", len(among)))
        return Choice(name, Because(Why.POOL_CHOSEN, numbers))

    def fit(self, name: str, spec: JobSpec) -> Fit:
        """How soon the job's minimum could run there, claims aside."""
        around = self._view.neighbourhood
        pods = spec.pods if around is not None and around.relates(spec) else ()
        key = (name, pods, *asks(spec))
        if key not in self._fits:
            self._fits[key] = self._fit(self._pools[name], spec)
        return self._fits[key]

    def shortage(self, pools: Iterable[Pool], spec: JobSpec, workers: int) -> Numbers | None:
        """What so many workers are short of in the pool that comes nearest to holding them; None if one holds them."""
        gang = gang_of(spec, workers)
        nearest: tuple[int, list[Space]] = (-1, [])
        for pool in pools:
            spaces = self._spaces_in(pool, Fit.NOW)
            there = [spaces[node.id] for node in admitting(pool.cluster.nodes, spec)]
            if there and gang_fits(there, gang):
                return None
            slots = sum(slots_in(space, spec.request) for space in there)
            nearest = max(nearest, (slots, there), key=lambda found: found[0])
        return what_is_short(nearest[1], gang)

    def can_stay(self, name: str, job: Job) -> bool:
        """Could a job that runs there go on there, be it on other nodes?"""
        pool = self._pools[name]
        spaces, held = self._beside(pool, Fit.NOW, without=job), {worker.node for worker in job.workers}
        nodes = (node.undoubted if node.id in held else node for node in pool.cluster.nodes)  # a doubt drives none out
        return gang_fits([spaces[node.id] for node in admitting(nodes, job.spec)], gang_of(job.spec))

    def _rank(self, pool: Pool, spec: JobSpec) -> tuple[int, bool, int, int]:
        fit = self.fit(pool.name, spec)
        free = self._free_in(pool) - self._claimed.get(pool.name, 0)
        if fit is Fit.NOW and spec.min_request[pool.cluster.currency] > free:
            fit = Fit.AFTER_OTHERS
        return (int(fit), pool.cluster.has_gpus or pool.lane, pool.card_bytes, -free)

    def _fit(self, pool: Pool, spec: JobSpec) -> Fit:
        if cannot_start_on(pool.cluster, spec) is not None:
            return Fit.NEVER
        nodes, gang = admitting(pool.cluster.nodes, spec), gang_of(spec)
        for fit in (Fit.NOW, Fit.AT_MINIMUM, Fit.PERHAPS):
            spaces = self._spaces_in(pool, fit)
            if gang_fits([spaces[node.id] for node in nodes], gang) and self._rules_allow(pool, fit, spec):
                return fit
        return Fit.EVER

    def _rules_allow(self, pool: Pool, fit: Fit, spec: JobSpec) -> bool:
        """Do rules between pods let the job's minimum in, beside workers that are in its way at this stage?"""
        around = self._view.neighbourhood
        if around is None or not around.relates(spec):
            return True
        beside = [(job, _staying(job, fit)) for job in self._view.holding]
        return seats_at_least(around, pool.cluster, spec, beside) is not None

    def _spaces_in(self, pool: Pool, fit: Fit) -> dict[NodeId, Space]:
        if (pool.name, fit) not in self._spaces:
            self._spaces[pool.name, fit] = self._beside(pool, fit)
        return self._spaces[pool.name, fit]

    def _beside(self, pool: Pool, fit: Fit, *, without: Job | None = None) -> dict[NodeId, Space]:
        """What is left of each node. In a lane, of the share and of the node itself, whichever is less."""
        holding = [job for job in self._view.holding if job.workers and job is not without]
        if not pool.lane:
            return spaces_beside(pool.cluster.nodes, [(job, _staying(job, fit)) for job in holding])
        mine = [(job, _staying(job, fit)) for job in holding if is_gpuless(job.spec)]
        others = [(job, job.workers) for job in holding if not is_gpuless(job.spec)]  # these make no room for a lane
        real = [self._view.cluster.by_id[node.id] for node in pool.cluster.nodes]
        share, whole = spaces_beside(pool.cluster.nodes, mine), spaces_beside(real, [*mine, *others])
        return {
            node_id: Space(min(cpu, whole[node_id].cpu_milli), min(memory, whole[node_id].memory_bytes), ())
            for node_id, (cpu, memory, _) in share.items()
        }

    def _free_in(self, pool: Pool) -> int:
        """What is free, in the pool's currency."""
        if pool.name not in self._free:
            spaces = self._spaces_in(pool, Fit.NOW).values()
            gpus = pool.cluster.currency is Currency.GPU
            self._free[pool.name] = sum(
                sum(milli for milli, _ in space.cards) if gpus else space.cpu_milli for space in spaces
            )
        return self._free[pool.name]


_WORDS = {
    Fit.NOW: "now",
    Fit.AFTER_OTHERS: "now, if those before it do not take the room",
    Fit.AT_MINIMUM: "once others are at their minimum",
    Fit.PERHAPS: "perhaps, once others are at their minimum",
    Fit.EVER: "once others have ended",
    Fit.NEVER: "never",
}


def is_gpuless(spec: JobSpec) -> bool:
    """Does no member of the job's gang ask for a GPU?"""
    return not spec.min_request.gpu_milli


def _staying(job: Job, fit: Fit) -> tuple[Worker, ...]:
    """Which of a job's workers are in the way."""
    if fit is Fit.NOW:
        return job.workers
    if fit is Fit.AT_MINIMUM:
        return shrunk(job.spec, job.workers, job.spec.workers_min)
    return tuple(worker for worker in job.workers if worker.role is not Role.WORKER or worker.ordinal == 0)
