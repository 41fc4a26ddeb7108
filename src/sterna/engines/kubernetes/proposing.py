"""Moves that somebody asked for, tried on top of a placement's answer. Pure: a request and a layout in, a layout out.

A request is granted as a whole or not at all. Who asked, and what becomes of it, is `migrating.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why
from sterna.placement.frame import frame_of
from sterna.placement.rebalancing import Proposal, with_proposals
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


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked for. Exactly what goes where is found when there is a layout."""

    key: str  # of the object that asks: namespace/name/uid
    moves: Callable[[Job, Worker], bool]
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


def tried(view: Snapshot, layout: Layout, ask: Ask) -> tuple[Layout, Answer | None]:
    """The layout with the moves, or as it was. None: nothing that is meant is in this view (another pool has it)."""
    movers = [
        (job, worker)
        for job in view.jobs
        for worker in layout.workers_of(job.id)
        if ask.moves(job, worker) and (ask.to is None or worker.node not in ask.to)
    ]
    if not movers:
        return layout, _why_nothing(view, layout, ask)
    room = Room.empty(frame_of(view.cluster))
    for job_id, held in layout.workers.items():
        room.hold(view.by_id[job_id].spec, held)
    targets = _targets(room, movers, ask)
    if isinstance(targets, Denied):
        return layout, targets
    because = Because(Why.REBALANCED, (("asked_for_by", ask.key.rpartition("/")[0]),))
    proposals = [
        Proposal(job.id, worker, to, because, benefit_s=math.inf, cost_s=0.0)
        for (job, worker), to in zip(movers, targets, strict=True)
    ]
    moved = with_proposals(view, layout, proposals, moves_max=len(proposals))
    if any(proposal.worker in moved.workers_of(proposal.job_id) for proposal in proposals):
        return layout, Denied(Refusal.NO_ROOM, "there is no room for all that should move")
    jobs = tuple(dict.fromkeys(job.id for job, _ in movers))
    left = tuple(sorted({worker.node for _, worker in movers}))
    return moved, Granted(jobs, left, tuple(sorted(set(targets))))


def _why_nothing(view: Snapshot, layout: Layout, ask: Ask) -> Answer | None:
    there = [worker for job in view.jobs for worker in layout.workers_of(job.id) if ask.moves(job, worker)]
    if not there:
        return None
    nodes = ", ".join(sorted({worker.node for worker in there}))
    return Denied(Refusal.SAME_NODE, f"what should move is on {nodes} already")


def _targets(room: Room, movers: Sequence[Mover], ask: Ask) -> list[NodeId] | Denied:
    """A node for each; one for all of them where there is such a one."""
    frame = room.frame
    usable = [
        at
        for at, node in enumerate(frame.nodes)
        if node.id not in ask.avoid
        and (ask.to is None or node.id in ask.to)
        and all(frame.admits(at, job.spec) for job, _ in movers)
    ]
    if not usable:
        if ask.to is None:
            return Denied(Refusal.NO_ROOM, "no other node admits what should move")
        return Denied(
            Refusal.NODE_NOT_USABLE, f"{', '.join(sorted(ask.to))}: {_why_not_usable(room, movers[0][0], ask)}"
        )
    widest = sorted(usable, key=lambda at: (-room.slots_at(at, _request(movers[0])), frame.nodes[at].id))
    for at in widest:
        if _fits_all(room.copy(), at, movers):
            return [frame.nodes[at].id] * len(movers)
    return _spread(room, widest, movers, ask)


def _fits_all(room: Room, at: int, movers: Sequence[Mover]) -> bool:
    for mover in movers:
        if room.slots_at(at, _request(mover)) <= 0:
            return False
        room.take(at, _request(mover))
    return True


def _spread(room: Room, usable: Sequence[int], movers: Sequence[Mover], ask: Ask) -> list[NodeId] | Denied:
    found: list[NodeId] = []
    for mover in movers:
        request = _request(mover)
        slots, best = max((room.slots_at(at, request), -position) for position, at in enumerate(usable))
        if slots <= 0:
            where = "any other node" if ask.to is None else ", ".join(sorted(ask.to))
            gpus, cpus = request.gpu_milli / 1000, request.cpu_milli / 1000
            count = f"{len(movers)} worker{'s' if len(movers) > 1 else ''}"
            message = f"{where} has no room for {count} that should move (the next needs {gpus:g} GPU, {cpus:g} CPU)"
            return Denied(Refusal.NO_ROOM, message)
        at = usable[-best]
        room.take(at, request)
        found.append(room.frame.nodes[at].id)
    return found


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
