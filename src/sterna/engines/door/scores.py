"""How full nodes are by what their containers may use at most, as container-migration counts it. Pure.

A node's score is half its CPU limits to its CPU and half its memory limits to its memory. It can exceed 1, since limits
may be overbooked; containers without limits count nothing.
"""

from collections import defaultdict
from collections.abc import Mapping

from sterna.model.ids import NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.resources import NOTHING, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.room import Room
from sterna.placement.rule_check import open_beside
from sterna.planner.obedience import with_neighbourhood


def limits_of_jobs(view: Snapshot) -> Mapping[NodeId, Resources]:
    """What the workers of all jobs may use at most on each node, those on their way out included."""
    sums: defaultdict[NodeId, Resources] = defaultdict(lambda: NOTHING)
    for job in view.jobs:
        for worker in (*job.workers, *job.leaving):
            sums[worker.node] = sums[worker.node].plus(job.spec.limit_of(worker.role))
    return sums


def score(node: Node, limits: Resources) -> float:
    total = node.allocatable
    cpu = limits.cpu_milli / total.cpu_milli if total.cpu_milli else 0.0
    memory = limits.memory_bytes / total.memory_bytes if total.memory_bytes else 0.0
    return 0.5 * cpu + 0.5 * memory


def best_node(view: Snapshot, job: Job, worker: Worker, limits: Mapping[NodeId, Resources] | None = None) -> NodeId:
    """The node with the lowest score once the worker is off its own, of those that let it in and have room for it.

    Its own node wins ties, and is the answer as well where no other one is fit; further ties go to the lower id. Nodes
    with other GPUs than its own are another pool, and are not looked at. `limits`: as measured, where that is known.
    """
    room = Room.of(view, leaving=True)
    frame, request, limit = room.frame, job.spec.request_of(worker.role), job.spec.limit_of(worker.role)
    sums = limits_of_jobs(view) if limits is None else limits
    there = Layout({other.id: other.workers for other in view.jobs})
    lawful = open_beside(with_neighbourhood(view), there, job, (worker,))
    here = view.cluster.by_id.get(worker.node)
    left = sums.get(worker.node, NOTHING).minus(limit)
    candidates = [] if here is None else [(score(here, left), "", here.id)]
    for at, node in enumerate(frame.nodes):
        alike = here is None or node.accelerator == here.accelerator
        fits = frame.admits(at, job.spec) and room.slots_at(at, request) > 0 and (lawful is None or lawful[at])
        if node.id != worker.node and alike and fits:
            candidates.append((score(node, sums.get(node.id, NOTHING)), node.id, node.id))
    return min(candidates, default=(0.0, "", worker.node))[2]
