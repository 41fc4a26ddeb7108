"""How much CPU a worker would use if no other competed for it. Nothing is chosen here.

Its limit says so; a worker that needs a card uses what it asked for, as the GPU does the work. Of others only what they
use is known, and only where growth is judged by it: one that uses less than its neighbours on a busy node, or anything
on a node that is not busy, wants no more than that. Any other without a limit is taken to want all there is.
"""

from collections.abc import Sequence
from math import inf

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.nodes import Node
from sterna.placement.rebalancers.scene import HeldSeat, Scene

_NEARLY = 0.9  # measurements are never exact


class Demands:
    """Of all workers of one scene. What is asked often is worked out once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._known: dict[tuple[NodeId, JobId, Worker], float] = {}
        self._greedy_from: dict[NodeId, float] = {}

    def milli(self, node: Node, seat: HeldSeat) -> float:
        """Of one worker, were it on this node."""
        key = (node.id, seat.job.id, seat.worker)
        if key not in self._known:
            self._known[key] = min(self._wanted(seat), cpu_milli(node))
        return self._known[key]

    def _wanted(self, seat: HeldSeat) -> float:
        spec, role = seat.job.spec, seat.worker.role
        limit, request = spec.limit_of(role).cpu_milli, spec.request_of(role)
        if limit:
            return limit
        if request.gpu_milli:
            return request.cpu_milli
        used = used_milli(seat.job)
        return inf if used is None or used >= self._greedy(seat.worker.node) else used

    def _greedy(self, node_id: NodeId) -> float:
        """From which use on a worker here would use more if it could: nearly the largest use; infinite if not busy."""
        if node_id not in self._greedy_from:
            seats = self._scene.residents.get(node_id, ())
            uses = [used_milli(seat.job) for seat in seats]
            most = max((used or 0.0 for used in uses), default=0.0)
            self._greedy_from[node_id] = _NEARLY * most if self._is_busy(node_id, uses) else inf
        return self._greedy_from[node_id]

    def _is_busy(self, node_id: NodeId, uses: Sequence[float | None]) -> bool:
        """Are its CPUs used up, as far as is known?"""
        node = self._scene.view.cluster.by_id.get(node_id)
        if node is None:
            return True
        measured = self._scene.view.usage.get(node_id)
        if measured is not None:
            return measured.cpu_milli >= _NEARLY * cpu_milli(node)
        return any(used is None for used in uses) or sum(used or 0.0 for used in uses) >= _NEARLY * cpu_milli(node)


def cpu_milli(node: Node) -> int:
    """What training may use; never 0, so that workers of a node whose CPUs are not counted share it alike."""
    return node.free_of_guests.cpu_milli or 1


def used_milli(job: Job) -> float | None:
    """What each worker of the job used when its growth was last judged. None: it was not measured."""
    growth = job.growth
    if growth is None or not growth.score or not growth.efficiency or not job.size:
        return None
    return 1000 * growth.score / growth.efficiency / job.size
