"""CPU that containers on a node share: how fast each job goes, given the others there. No clock, no jobs' lives.

Containers share a node's CPU max-min fairly: all get the same, but none more than it can use, and what one leaves is
shared by the others. That is what the kernel does with containers that ask for nothing, and all that a simulation can
know of them. Requests are no part of it: they decide where a worker fits, not how much it gets.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.nodes import Cluster
from sterna.placement.rebalancers.forecast import fair_shares


class Appetite(NamedTuple):
    """What one container of a job can make use of, in thousandths of a CPU. 0: none worth counting."""

    worker_milli: int = 0
    fixed_milli: int = 0  # of one parameter server, chief, ...

    def of(self, role: Role) -> int:
        return self.worker_milli if role is Role.WORKER else self.fixed_milli


class SharedCpu:
    """Which containers are on which node, and what each gets there. Jobs are told of by `moved`; shares are worked out
    anew only for nodes that were touched since they were last asked for."""

    def __init__(self) -> None:
        self._there: dict[NodeId, dict[tuple[JobId, Role, int], int]] = {}  # demand by container
        self._held: dict[JobId, tuple[JobSpec, Appetite, tuple[Worker, ...]]] = {}
        self._shares: dict[tuple[JobId, Role, int], float] = {}
        self._used: dict[NodeId, float] = {}
        self._touched: set[NodeId] = set()

    def moved(self, spec: JobSpec, appetite: Appetite, workers: tuple[Worker, ...]) -> None:
        """From now on the job holds exactly these; with none it is gone."""
        job_id = spec.id
        for worker in self._held.pop(job_id, (spec, appetite, ()))[2]:
            del self._there[worker.node][job_id, worker.role, worker.ordinal]
            self._shares.pop((job_id, worker.role, worker.ordinal), None)
            self._touched.add(worker.node)
        for worker in workers:
            self._there.setdefault(worker.node, {})[job_id, worker.role, worker.ordinal] = appetite.of(worker.role)
            self._touched.add(worker.node)
        if workers:
            self._held[job_id] = (spec, appetite, workers)

    def touch(self, nodes: Iterable[NodeId]) -> None:
        """Something else changed about these nodes: guests came, or they are another size."""
        self._touched.update(nodes)

    def share_out(self, cluster: Cluster) -> dict[JobId, float]:
        """New paces of the jobs on nodes that were touched: 1 is as fast as the job goes alone."""
        affected: dict[JobId, None] = {}
        for node_id in sorted(self._touched):
            there = self._there.get(node_id, {})
            node = cluster.by_id.get(node_id)
            capacity = node.free_of_guests.cpu_milli if node is not None else 0
            shares = fair_shares(capacity, tuple(there.values()))
            self._shares.update(zip(there, shares, strict=True))
            self._used[node_id] = sum(shares)
            affected.update((job_id, None) for job_id, _, _ in there)
        self._touched.clear()
        return {job_id: self._pace(job_id) for job_id in affected}

    def used_milli(self) -> Mapping[NodeId, float]:
        return self._used

    def used_by(self, job_id: JobId) -> float:
        """Thousandths of a CPU that all containers of a job use together."""
        workers = self._held[job_id][2] if job_id in self._held else ()
        return sum(self._shares.get((job_id, worker.role, worker.ordinal), 0.0) for worker in workers)

    def _pace(self, job_id: JobId) -> float:
        """Workers around a parameter server do not wait for each other: their mean. All others do: the slowest."""
        spec, appetite, workers = self._held[job_id]
        if not appetite.worker_milli:
            return 1.0
        paces = [
            self._shares[job_id, worker.role, worker.ordinal] / appetite.worker_milli
            for worker in workers
            if worker.role is Role.WORKER
        ]
        if not paces:
            return 1.0
        return sum(paces) / len(paces) if spec.fixed else min(paces)
