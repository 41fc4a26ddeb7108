"""Moves that people asked for, tried on top of a placement's answer. Pure: the layout is changed, or stays as it is.

A request is granted as a whole or not at all. Who asked, and where that is written down, is the engine's matter. What
is granted becomes a change of the job; from then on it is a move that was begun (`begun_moves.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.nodes import Doubt
from sterna.model.resources import Resources
from sterna.model.snapshot import arrival_order
from sterna.model.why import Because
from sterna.placement.frame import Frame
from sterna.placement.moving import Move, Moving
from sterna.placement.room import Room
from sterna.placement.rule_check import relates, tenants_beside


class Refusal(StrEnum):
    """Why a move cannot be: what `status.reason` of a Migration says, in a cluster."""

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

    key: str  # of the request, as its engine knows it
    job: JobId | None = None  # None: `node` says which workers are meant
    worker: int | None = None  # None: all of the job
    node: NodeId | None = None  # all workers there. None: `job` says which workers are meant
    namespace: str = ""  # of the jobs that are on `node`. Empty: any
    among: frozenset[JobId] | None = None  # of the jobs that are on `node`. None: all
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

_RULED_OUT = "a rule about which pods may be near each other keeps what should move out"
Mover = tuple[Job, Worker]


def cannot_move(name: str, held: Sequence[Worker], *, worker: int | None, to: NodeId | None) -> Denied | None:
    """What can be told about moving the job called `name` without looking for room. None: nothing."""
    if not held:
        return Denied(Refusal.NOTHING_TO_MOVE, f"job {name} holds no workers: there is nothing to move")
    meant = [found for found in held if is_worker(found, worker)]
    if not meant:
        numbers = ", ".join(str(found.ordinal) for found in held if is_worker(found, found.ordinal))
        return Denied(Refusal.NO_SUCH_WORKER, f"job {name} has no worker {worker}; it has: {numbers}")
    if all(found.node == to for found in meant):
        return Denied(Refusal.SAME_NODE, f"job {name} is on {to} already")
    return None


def ask_of_job(
    key: str,
    job: JobId,
    held: Sequence[Worker],
    *,
    worker: int | None,
    to: NodeId | None,
    begun: Sequence[Worker] | None = None,
) -> Ask:
    """What to try for a request about one job that holds `held`.

    `begun`: what it is to hold by a change that was begun for this very request, maybe by a scheduler that is gone by
    now. Then all that is placed anew goes there, wherever else there is room today. None: nothing was begun.
    """
    if begun is not None:
        there = frozenset(found.node for found in begun if is_worker(found, worker))
        return Ask(key=key, job=job, worker=worker, to=there)
    if to is not None:
        return Ask(key=key, job=job, worker=worker, to=frozenset({to}))
    here = frozenset(found.node for found in held if is_worker(found, worker))
    return Ask(key=key, job=job, worker=worker, avoid=here)


def tried(moving: Moving, ask: Ask, because: Because) -> Answer | None:
    """Make the moves, or none of them. None: nothing that is meant is in this view (another pool has it)."""
    meant = _meant(moving, ask)
    movers = [mover for mover in meant if ask.to is None or mover[1].node not in ask.to]
    if not movers:
        if not meant:
            return None
        nodes = ", ".join(sorted({worker.node for _, worker in meant}))
        return Denied(Refusal.SAME_NODE, f"what should move is on {nodes} already")
    targets = _targets(moving, movers, ask)
    if isinstance(targets, Denied):
        return targets
    moves = [Move(job.id, worker, to) for (job, worker), to in zip(movers, targets, strict=True)]
    if not moving.make(moves, because):
        if any(relates(moving.view, job) for job, _ in movers):
            return Denied(Refusal.NODE_NOT_USABLE, _RULED_OUT)
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


def _targets(moving: Moving, movers: Sequence[Mover], ask: Ask) -> list[NodeId] | Denied:
    """A node for each; one for all of them where there is such a one."""
    room = moving.room
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
    if any(relates(moving.view, job) for job, _ in movers):
        return _by_rules(moving, movers, usable)
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


def _by_rules(moving: Moving, movers: Sequence[Mover], usable: Sequence[int]) -> list[NodeId] | Denied:
    """Each where rules between pods leave a node open to it, beside those before it if may be. Tried and taken back."""
    room, tenants = moving.room, tenants_beside(moving.view, moving.layout)
    for job, worker in movers:
        tenants.release(job.spec, (worker,))
    taken: list[tuple[int, Resources, tuple[DeviceId, ...]]] = []
    for job, worker in movers:
        request = _request((job, worker))
        nodes = {at: room.frame.nodes[at].id for at in usable if room.slots_at(at, request) > 0}
        lawful = tenants.gate(job.spec, job.spec.traits_of(worker.role)).open()
        open_to_it = [at for at in nodes if lawful[tenants.around.index[nodes[at]]]]
        if not open_to_it:
            break
        before = {at for at, _, _ in taken}
        best = min(open_to_it, key=lambda at: (at not in before, -room.slots_at(at, request), nodes[at]))
        taken.append((best, request, room.take(best, request)))
        tenants.hold(job.spec, (worker._replace(node=nodes[best]),))
    for at, request, devices in reversed(taken):
        room.give(at, request, devices)
    if len(taken) < len(movers):
        return Denied(Refusal.NODE_NOT_USABLE, _RULED_OUT)
    return [room.frame.nodes[at].id for at, _, _ in taken]


def _positions(frame: Frame, nodes: Collection[NodeId]) -> list[int]:
    return [frame.index[node] for node in nodes if node in frame.index]


def _spread(room: Room, usable: Sequence[int], requests: Sequence[Resources], ask: Ask) -> list[NodeId] | Denied:
    """Each where there is most room for it, tried out and taken back."""
    taken: list[tuple[int, Resources, tuple[DeviceId, ...]]] = []
    short: Resources | None = None  # what the first one asks for that finds no node
    for request in requests:
        slots, best = max((room.slots_at(at, request), -position) for position, at in enumerate(usable))
        if slots <= 0:
            short = request
            break
        at = usable[-best]
        taken.append((at, request, room.take(at, request)))
    for at, request, devices in reversed(taken):
        room.give(at, request, devices)
    if short is not None:
        return _no_room(room, short, len(requests), ask)
    return [room.frame.nodes[at].id for at, _, _ in taken]


def _no_room(room: Room, request: Resources, count: int, ask: Ask) -> Denied:
    what = f"{count} worker{'s' if count > 1 else ''} that should move"
    needs = f"the next needs {_amount(request.gpu_milli, 'GPU')}, {_amount(request.cpu_milli, 'CPU')}"
    if ask.to is None:
        return Denied(Refusal.NO_ROOM, f"no other node has room for {what}: {needs}")
    free = [
        f"{room.frame.nodes[at].id} has {room.gpus[at]:g} GPU free, {_amount(room.cpu[at], 'CPU')} free"
        for at in sorted(_positions(room.frame, ask.to))
    ]
    return Denied(Refusal.NO_ROOM, f"there is no room for {what}: {needs}; {'; '.join(free)}")


def _amount(milli: int, what: str) -> str:
    return f"{max(0, milli) / 1000:g} {what}"


def _why_not_usable(room: Room, job: Job, ask: Ask) -> str:
    nodes = [node for node in room.frame.nodes if ask.to is not None and node.id in ask.to]
    if not nodes:
        return f"it is not in the pool that {job.id} runs in"
    node = nodes[0]
    if node.cordoned:
        return "it is being drained"
    if not node.ready or node.doubt is Doubt.NOT_READY:
        return "it is not ready"
    return "it came and went too often lately" if node.doubt is Doubt.FLAPPING else "it does not admit the job"


def _request(mover: Mover) -> Resources:
    job, worker = mover
    return job.spec.request_of(worker.role)


def is_worker(worker: Worker, ordinal: int | None) -> bool:
    """Is this the one that is meant? None: all of the job are."""
    return ordinal is None or (worker.role is Role.WORKER and worker.ordinal == ordinal)
