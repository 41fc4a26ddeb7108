"""Lanes: idle CPUs of nodes with GPUs, for jobs without GPUs, up to a share of each node.

A lane is a pool of its own beside the pool whose nodes it shares, and is decided after it, so that jobs with GPUs come
first; the share keeps enough of a node for jobs that need its GPUs, so that no GPU is ever stranded.
"""

from dataclasses import dataclass, replace

from sterna.model.feasibility import IDLE_CPU_SHARE, admitting, asks
from sterna.model.gangs import gang_fits, gang_of, spaces_beside
from sterna.model.ids import NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Cluster, Node
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import KEPT, Why
from sterna.placement.shrinking import shrunk


@dataclass(frozen=True, slots=True)
class Part:
    """A pool with its jobs, as a snapshot of its own."""

    name: str
    view: Snapshot
    lane_of: str | None = None  # the pool whose nodes it shares, which is decided before it


def share_for_gpuless(cluster: Cluster, asked: float | None) -> float:
    """How much of a node with GPUs jobs without GPUs may take.

    Unless the owner says otherwise: half of it where there are nodes without GPUs, so that at least half of a node's
    CPUs and memory are there for jobs that need its GPUs; all of it where all nodes have GPUs, since there is
    nowhere else.
    """
    if asked is not None:
        return asked
    return IDLE_CPU_SHARE if cluster.has_nodes_without_gpus else 1.0


def lane_name(pool: str) -> str:
    return f"{pool} idle CPUs"


def lane_of_nodes(cluster: Cluster, share: float) -> Cluster:
    """These nodes as jobs without GPUs may have them for good: of nodes with GPUs a share, and what guests leave."""
    key = ("lane", share)
    if key not in cluster.answers:
        lane = Cluster(tuple(_share_of(node, share) for node in cluster.nodes))
        lane.__dict__["freed"] = Cluster(tuple(_share_of(node, share) for node in cluster.freed.nodes))
        cluster.answers[key] = lane
    return cluster.answers[key]  # type: ignore[return-value]


def beside_neighbours(part: Part, whole: Snapshot, neighbours: Part, layout: Layout) -> Part:
    """A lane as it is once the pool it shares nodes with was decided: with what that pool's workers leave of them.

    Workers count where they are and where they will be. While a job with GPUs waits that would fit if the jobs in the
    lane were at their minimum, they are: idle CPUs are for growth only as long as no such job waits for the GPUs.
    """
    taken: dict[NodeId, Resources] = {}
    for job in neighbours.view.jobs:
        for worker in {*job.workers, *job.leaving, *layout.workers_of(job.id)}:
            taken[worker.node] = taken.get(worker.node, Resources()).plus(job.spec.request_of(worker.role))
    lane = part.view.cluster
    held = _held(part.view.jobs)
    nodes = [
        _with_room_for(node, held.get(node.id, Resources()), _left(whole.cluster.by_id[node.id], taken.get(node.id)))
        for node in lane.nodes
    ]
    jobs = part.view.jobs
    if _somebody_waits_for_cpus(whole, part, neighbours, layout):
        jobs = tuple(_at_minimum(job) if job.workers else job for job in jobs)
    return replace(part, view=replace(part.view, cluster=lane.temporarily(nodes), jobs=jobs))


def _share_of(node: Node, share: float) -> Node:
    cpu, memory = node.free_of_guests[:2]
    if node.allocatable.gpu_milli:
        cpu = min(cpu, int(node.allocatable.cpu_milli * share))
        memory = min(memory, int(node.allocatable.memory_bytes * share))
    return replace(node, allocatable=Resources(cpu, memory), devices=(), guests=())


def _left(node: Node, taken: Resources | None) -> Resources:
    free = node.free_of_guests
    return free if taken is None else free.minus(taken)


def _with_room_for(node: Node, held: Resources, left: Resources) -> Node:
    """A node of a lane with no more than is left of it, and with room for what the lane holds of it already."""
    cpu, memory = (max(0, min(max(node.allocatable[each], held[each]), left[each])) for each in (0, 1))
    return replace(node, allocatable=Resources(cpu, memory))


def _held(jobs: tuple[Job, ...]) -> dict[NodeId, Resources]:
    held: dict[NodeId, Resources] = {}
    for job in jobs:
        for worker in job.workers:
            held[worker.node] = held.get(worker.node, Resources()).plus(job.spec.request_of(worker.role))
    return held


def _at_minimum(job: Job) -> Job:
    """The same job, were its minimum all that its owner asked for."""
    least = job.spec.workers_min
    return job.but(spec=replace(job.spec, workers_max=least, workers_initial=least))


def _somebody_waits_for_cpus(whole: Snapshot, lane: Part, neighbours: Part, layout: Layout) -> bool:
    """Would a job with GPUs that waits fit, were the jobs of the lane at their minimum?"""
    waiting = [
        job
        for job in neighbours.view.wanting
        if not layout.workers_of(job.id) and layout.becauses.get(job.id, KEPT).why is not Why.RULED_OUT
    ]
    growable = [job for job in lane.view.jobs if job.spec.workers_max > job.spec.workers_min]
    if not waiting or not growable:
        return False
    placed = [(job, layout.workers_of(job.id)) for job in neighbours.view.jobs]
    least: list[tuple[Job, tuple[Worker, ...]]] = [
        (job, shrunk(job.spec, job.workers, job.spec.workers_min)) for job in lane.view.jobs
    ]
    nodes = [whole.cluster.by_id[node.id] for node in neighbours.view.nodes]
    spaces = spaces_beside(nodes, [*placed, *least])
    tried: set[object] = set()
    for job in waiting:
        key = asks(job.spec)
        if key not in tried:
            tried.add(key)
            if gang_fits([spaces[node.id] for node in admitting(nodes, job.spec)], gang_of(job.spec)):
                return True
    return False
