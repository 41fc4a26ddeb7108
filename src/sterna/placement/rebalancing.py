"""Moves that somebody proposes beyond what a placement does: to calm a contended node, to bring a job together.

Only the hook: what a proposal is, and how proposals become part of a layout. Who proposes is up to other modules.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because
from sterna.placement.frame import frame_of
from sterna.placement.room import Room


class Proposal(NamedTuple):
    job_id: JobId
    worker: Worker  # as the layout has it; if it is not there any more the proposal is void
    to: NodeId
    because: Because
    benefit_s: float  # what the move is expected to save, and
    cost_s: float  # what it costs: checkpoint, restart, lost work


Rebalancer = Callable[[Snapshot, Layout], Sequence[Proposal]]


def with_proposals(view: Snapshot, layout: Layout, proposals: Iterable[Proposal], *, moves_max: int) -> Layout:
    """The layout with the proposals that pay, fit and are let in: best net benefit first, `moves_max` at most."""
    room = Room.empty(frame_of(view.cluster))
    specs = {job.spec.id: job.spec for job in view.jobs}
    workers, becauses = dict(layout.workers), dict(layout.becauses)
    for job_id, held in workers.items():
        room.hold(specs[job_id], held)
    moves = 0
    for proposal in sorted(proposals, key=_best_first):
        if moves >= moves_max:
            break
        job_id, old = proposal.job_id, proposal.worker
        held = workers.get(job_id, ())
        if old in held and _is_sound(room, specs[job_id], proposal):
            new = _moved(room, specs[job_id], proposal)
            workers[job_id] = tuple(new if worker == old else worker for worker in held)
            becauses[job_id] = proposal.because
            moves += 1
    return Layout(workers, becauses)


def _best_first(proposal: Proposal) -> tuple[float, JobId, str, int, NodeId]:
    worker = proposal.worker
    return (proposal.cost_s - proposal.benefit_s, proposal.job_id, worker.role, worker.ordinal, proposal.to)


def _is_sound(room: Room, spec: JobSpec, proposal: Proposal) -> bool:
    at = room.frame.index.get(proposal.to)
    return (
        at is not None
        and proposal.to != proposal.worker.node
        and proposal.benefit_s > proposal.cost_s
        and room.frame.admits(at, spec)
        and room.slots_at(at, spec.request_of(proposal.worker.role)) > 0
    )


def _moved(room: Room, spec: JobSpec, proposal: Proposal) -> Worker:
    worker, at = proposal.worker, room.frame.index[proposal.to]
    room.release(spec, (worker,))
    return worker._replace(node=proposal.to, devices=room.take(at, spec.request_of(worker.role)))
