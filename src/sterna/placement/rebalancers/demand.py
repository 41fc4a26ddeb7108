"""How much CPU a worker would use if nobody were in its way. Nothing is chosen here.

Its limit says so; a worker that needs a card uses what it asked for, as the GPU does the work. Of others only what they
use is known, and only where growth is judged by it: one that uses less than its neighbours on a busy node, or anything
on a node that is not busy, wants no more than that. Whoever else has no limit is taken to want all there is.
"""

from sterna.model.ids import NodeId
from sterna.model.jobs import Job
from sterna.model.nodes import Node
from sterna.placement.rebalancers.scene import Scene, Seat

_NEARLY = 0.9  # measurements are never exact


def demand_milli(scene: Scene, node: Node, seat: Seat) -> float:
    """Of one worker, were it on this node."""
    spec, role = seat.job.spec, seat.worker.role
    limit, request, most = spec.limit_of(role).cpu_milli, spec.request_of(role), cpu_milli(node)
    if limit:
        return min(limit, most)
    if request.gpu_milli:
        return min(request.cpu_milli, most)
    used = used_milli(seat.job)
    if used is None or (_is_busy(scene, seat.worker.node) and used >= _NEARLY * _largest_use(scene, seat.worker.node)):
        return most
    return min(used, most)


def cpu_milli(node: Node) -> int:
    """What training may use; never 0, so that workers of a node whose CPUs nobody counts share it alike."""
    return node.free_of_guests.cpu_milli or 1


def used_milli(job: Job) -> float | None:
    """What each worker of the job used when its growth was last judged. None: nobody measured it."""
    growth = job.growth
    if growth is None or not growth.score or not growth.efficiency or not job.size:
        return None
    return 1000 * growth.score / growth.efficiency / job.size


def _is_busy(scene: Scene, node_id: NodeId) -> bool:
    """Are its CPUs used up, as far as anybody knows?"""
    node = scene.view.cluster.by_id.get(node_id)
    if node is None:
        return True
    measured = scene.view.usage.get(node_id)
    if measured is not None:
        return measured.cpu_milli >= _NEARLY * cpu_milli(node)
    uses = [used_milli(seat.job) for seat in scene.residents[node_id]]
    return any(used is None for used in uses) or sum(used or 0.0 for used in uses) >= _NEARLY * cpu_milli(node)


def _largest_use(scene: Scene, node_id: NodeId) -> float:
    uses = [used_milli(seat.job) or 0.0 for seat in scene.residents.get(node_id, ())]
    return max(uses, default=0.0)
