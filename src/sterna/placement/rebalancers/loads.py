"""How loaded nodes are, by container-migration's score: half the CPU and half the memory that is spoken for.

The score of a node is 0.5 of its CPU plus 0.5 of its memory, each the sum of what its workers may use (their limits)
over what the node has; it may exceed 1. Workers without limits count nothing there, as published; guests count their
requests, which is all that is known of them.
"""

import math
from collections.abc import Mapping
from copy import copy
from enum import StrEnum

from sterna.model.ids import NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.resources import Resources
from sterna.placement.rebalancers.scene import Scene, Unit

Load = tuple[float, float]  # CPU in thousandths, memory in bytes


class By(StrEnum):
    LIMITS = "limits"
    REQUESTS = "requests"
    USAGE = "usage"


class Loads:
    """The load of every node of a scene."""

    def __init__(self, scene: Scene, by: By) -> None:
        self._nodes = scene.view.cluster.by_id
        self._by = by
        self._usage = scene.view.usage if by is By.USAGE else {}
        self._crowd = {node_id: max(1, len(seats)) for node_id, seats in scene.residents.items()}
        self._loads: dict[NodeId, Load] = {}
        for node in scene.nodes:
            parts = [_amounts(guest.request) for guest in node.guests]
            parts += [self._of(seat.job, seat.worker) for seat in scene.residents[node.id]]
            measured = self._usage.get(node.id)
            self._loads[node.id] = _amounts(measured) if measured is not None else _sum(parts)

    def scores(self) -> dict[NodeId, float]:
        return {node_id: self.score(node_id) for node_id in self._loads}

    def score(self, node_id: NodeId) -> float:
        node, (cpu, memory) = self._nodes[node_id], self._loads[node_id]
        return 0.5 * _part(cpu, node.allocatable.cpu_milli) + 0.5 * _part(memory, node.allocatable.memory_bytes)

    def moved(self, unit: Unit, to: NodeId | None) -> "Loads":
        """The same with the unit on another node. None: nowhere at all, its load credited to where it is."""
        twin = copy(self)
        twin._loads = dict(self._loads)
        for worker in unit.workers:
            load = self._of(unit.job, worker)
            twin._add(worker.node, load, -1)
            if to is not None:
                twin._add(to, load, 1)
        return twin

    def _add(self, node_id: NodeId, load: Load, sign: int) -> None:
        cpu, memory = self._loads[node_id]
        self._loads[node_id] = (cpu + sign * load[0], memory + sign * load[1])

    def _of(self, job: Job, worker: Worker) -> Load:
        """What one worker adds. Of what is measured on a node only the sum is known: then what it asked for counts,
        and where it asked for nothing an equal part of the whole."""
        if self._by is By.LIMITS:
            return _amounts(job.spec.limit_of(worker.role))
        request = job.spec.request_of(worker.role)
        measured = self._usage.get(worker.node)
        if measured is None or request.cpu_milli or request.memory_bytes:
            return _amounts(request)
        crowd = self._crowd[worker.node]
        return measured.cpu_milli / crowd, measured.memory_bytes / crowd


def overloaded(scores: Mapping[NodeId, float], *, threshold: float, gap: float, two_nodes_gap: float) -> set[NodeId]:
    """Nodes whose score is above the mean by more than `threshold` standard deviations, and by more than `gap`.

    The deviation is that of the whole population. Of n nodes none can be above the mean by more than sqrt(n - 1) of
    them, so with two nodes and a threshold of 1 none ever is: there `two_nodes_gap` says by how much one score must
    exceed the other; 0 leaves two nodes alone.
    """
    if len(scores) == 2:
        high, low = sorted(scores, key=lambda node_id: (-scores[node_id], node_id))
        return {high} if two_nodes_gap and scores[high] - scores[low] > two_nodes_gap else set()
    mean, deviation = _spread(scores)
    return {node_id for node_id, score in scores.items() if score - mean > max(threshold * deviation, gap) + _ROUNDING}


_ROUNDING = 1e-9  # what sums of equal scores may differ by


def _spread(scores: Mapping[NodeId, float]) -> tuple[float, float]:
    """Mean and population standard deviation, the same in whatever order nodes come."""
    if not scores:
        return 0.0, 0.0
    mean = math.fsum(scores.values()) / len(scores)
    return mean, math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores))


def _amounts(resources: Resources) -> Load:
    return float(resources.cpu_milli), float(resources.memory_bytes)


def _sum(loads: list[Load]) -> Load:
    return math.fsum(load[0] for load in loads), math.fsum(load[1] for load in loads)


def _part(used: float, of: int) -> float:
    return used / of if of > 0 else 0.0
