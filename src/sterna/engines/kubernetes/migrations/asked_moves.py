"""Moves that somebody asked for, tried on top of a placement's answer. Pure: the layout is changed, or stays as it is.

A request is granted as a whole or not at all. Who asked, and what becomes of it, is `migration_objects.py`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.resources import Resources
from sterna.model.snapshot import arrival_order
from sterna.model.why import Because, Why
from sterna.placement.frame import Frame
from sterna.placement.moving import Move, Moving
from sterna.placement.room import Room


class Refusal(StrEnum):
    """Why a move cannot be: what `status.reason` of a Migration says."""

    INVALID = "InvalidMigration"
    NO_SUCH_JOB = "NoSuchJob"
    NO_SUCH_WORKER = "NoSuchWorker"
    NO_SUCH_NODE = "NoSuchNode"
    NOTHING_TO_MOVE = "NothingToMove"
    SAME_NODE = "SameNode"
    NODE_NOT_USABLE = "NodeNotUsable"
    NO_ROOM = "NoRoom"
    DUPLICATE = "Duplicate"
    TOO_MANY = "TooManyMigrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked for: workers of a job, or of jobs that are on a node. What goes where is found in a layout.

    Values only, so that a decision can be made of it beside everything else that goes on.
    """

    key: str  # of the object that asks: namespace/name/uid
    job: JobId | None = None  # None: `node` says who is meant
    worker: int | None = None  # None: all of the job
    node: NodeId | None = None  # whoever is there. None: `job` says who is meant
    namespace: str = ""  # of those who are on `node`. Empty: everybody
    among: frozenset[JobId] | None = None  # of those who are on `node`. None: everybody
    to: frozenset[NodeId] | None = None  # None: wherever there is room
    avoid: frozenset[NodeId] = frozenset()  # nodes that are to be left


@dataclass(frozen=True, slots=True)
class Granted:
    jobs: tuple[JobId, ...]  # whose workers move
    left: tuple[NodeId, ...]
    reached: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Denied:
    refusal: Refusal
    message: str


Answer = Granted | Denied
Mover = tuple[Job, Worker]


def tried(moving: Moving, ask: Ask) -> Answer | None:
    """Make the moves, or none of them. None: nothing that is meant is in this view (another pool has it)."""
    meant = _meant(moving, ask)
    movers = [mover for mover in meant if ask.to is None or mover[1].node not in ask.to]
    if not movers:
        if not meant:
            return None
        nodes = ", ".join(sorted({worker.node for _, worker in meant}))
        return Denied(Refusal.SAME_NODE, f"what should move is on {nodes} already")
    targets = _targets(moving.room, movers, ask)
    if isinstance(targets, Denied):
        return targets
    because = Because(Why.REBALANCED, (("asked_for_by", ask.key.rpartition("/")[0]),))
    moves = [Move(job.id, worker, to) for (job, worker), to in zip(movers, targets, strict=True)]
    if not moving.make(moves, because):
        return Denied(Refusal.NO_ROOM, "there is no room for all that should move")
    jobs = tuple(dict.fromkeys(job.id for job, _ in movers))
    left = tuple(sorted({worker.node for _, worker in movers}))
    return Granted(jobs, left, tuple(sorted(set(targets))))


def _meant(moving: Moving, ask: Ask) -> list[Mover]:
    by_id = moving.view.by_id
    if ask.job is not None:
        job = by_id.get(ask.job)
        held = () if job is None else moving.layout.workers_of(ask.job)
        return [(job, worker) for worker in held if job is not None and is_worker(worker, ask.worker)]
    if ask.node is None:
        return []
    there = [by_id[job_id] for job_id in moving.jobs_on(ask.node) if job_id in by_id]
    jobs = [
        job
        for job in sorted(there, key=arrival_order)
        if job.id.startswith(f"{ask.namespace}/" if ask.namespace else "")
        and (ask.among is None or job.id in ask.among)
    ]
    return [(job, worker) for job in jobs for worker in moving.layout.workers_of(job.id) if worker.node == ask.node]


def _targets(room: Room, movers: Sequence[Mover], ask: Ask) -> list[NodeId] | Denied:
    """A node for each; one for all of them where there is such a one."""
    frame = room.frame
    specs = {job.id: job.spec for job, _ in movers}.values()
    possible = range(len(frame.nodes)) if ask.to is None else sorted(_positions(frame, ask.to))
    usable = [
        at for at in possible if frame.nodes[at].id not in ask.avoid and all(frame.admits(at, spec) for spec in specs)
    ]
    if not usable:
        if ask.to is None:
            return Denied(Refusal.NO_ROOM, "no other node admits what should move")
        return Denied(
            Refusal.NODE_NOT_USABLE, f"{', '.join(sorted(ask.to))}: {_why_not_usable(room, movers[0][0], ask)}"
        )
    requests = [_request(mover) for mover in movers]
    slots = {at: room.slots_at(at, requests[0]) for at in usable}
    widest = sorted(usable, key=lambda at: (-slots[at], frame.nodes[at].id))
    demand = [(request, 1) for request in requests]
    for at in widest:
        if not slots[at]:
            break  # the others have no room even for the first
        if room.holds(at, demand):
            return [frame.nodes[at].id] * len(movers)
    return _spread(room, widest, requests, ask)


def _positions(frame: Frame, nodes: Collection[NodeId]) -> list[int]:
    return [frame.index[node] for node in nodes if node in frame.index]


def _spread(room: Room, usable: Sequence[int], requests: Sequence[Resources], ask: Ask) -> list[NodeId] | Denied:
    """Each where there is most room for it, tried out and taken back."""
    taken: list[tuple[int, Resources, tuple[DeviceId, ...]]] = []
    denied: Denied | None = None
    for request in requests:
        slots, best = max((room.slots_at(at, request), -position) for position, at in enumerate(usable))
        if slots <= 0:
            denied = _no_room(request, len(requests), ask)
            break
        at = usable[-best]
        taken.append((at, request, room.take(at, request)))
    for at, request, devices in reversed(taken):
        room.give(at, request, devices)
    return denied or [room.frame.nodes[at].id for at, _, _ in taken]


def _no_room(request: Resources, count: int, ask: Ask) -> Denied:
    where = "any other node" if ask.to is None else ", ".join(sorted(ask.to))
    gpus, cpus = request.gpu_milli / 1000, request.cpu_milli / 1000
    what = f"{count} worker{'s' if count > 1 else ''}"
    message = f"{where} has no room for {what} that should move (the next needs {gpus:g} GPU, {cpus:g} CPU)"
    return Denied(Refusal.NO_ROOM, message)


def _why_not_usable(room: Room, job: Job, ask: Ask) -> str:
    nodes = [node for node in room.frame.nodes if ask.to is not None and node.id in ask.to]
    if not nodes:
        return f"it is not in the pool that {job.id} runs in"
    node = nodes[0]
    return (
        "it is being drained" if node.cordoned else "it is not ready" if not node.ready else "it does not admit the job"
    )


def _request(mover: Mover) -> Resources:
    job, worker = mover
    return job.spec.request_of(worker.role)


def is_worker(worker: Worker, ordinal: int | None) -> bool:
    """Is this the one that is meant? None: all of the job are."""
    return ordinal is None or (worker.role is Role.WORKER and worker.ordinal == ordinal)
