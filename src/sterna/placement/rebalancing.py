"""Moves that are proposed beyond what a placement does: to calm a contended node, to bring a job together.

Only the hook: what a proposal is, how proposals become part of a layout, and how what rebalancers remember travels
beside what the policy does. Proposals come from `rebalancers/`, and from engines that are asked for a move.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.model.why import Because, Why
from sterna.placement.frame import frame_of
from sterna.placement.moving import Move, Moving
from sterna.placement.room import Room
from sterna.placement.rule_check import relates, unlawful


class Proposal(NamedTuple):
    job_id: JobId
    worker: Worker  # as the layout has it; if it is not there any more the proposal is void
    to: NodeId
    because: Because
    benefit_s: float  # what the move is expected to save, and
    cost_s: float  # what it costs: checkpoint, restart, lost work


class Rebalanced(NamedTuple):
    """What all rebalancers together made of a layout."""

    layout: Layout
    memory: PolicyMemory  # what they remember and nothing else: every key begins with `MEMORY`
    considered: tuple[ConsideredMove, ...] = ()
    wake_s: float | None = None  # when their next round is due. None: only when something happens


Rebalancing = Callable[[Snapshot, Layout], Rebalanced]

MEMORY = "rebalancing/"  # what keys of rebalancers begin with, in the memory's values and in those of its jobs
_WHYS = frozenset(map(str, Why))


def with_rebalancing(memory: PolicyMemory, kept: PolicyMemory) -> PolicyMemory:
    """The policy's memory with that of the rebalancers beside it."""
    own = without_rebalancing(memory)
    jobs = dict(own.jobs)
    for job_id, entry in kept.jobs.items():
        jobs[job_id] = {**jobs.get(job_id, {}), **entry}
    return PolicyMemory(jobs, {**own.values, **kept.values}, own.last_action_s)


def without_rebalancing(memory: PolicyMemory) -> PolicyMemory:
    """What is the policy's own."""
    jobs = {
        job_id: {key: value for key, value in entry.items() if not key.startswith(MEMORY)}
        for job_id, entry in memory.jobs.items()
    }
    values = {key: value for key, value in memory.values.items() if not key.startswith(MEMORY)}
    return PolicyMemory({job_id: entry for job_id, entry in jobs.items() if entry}, values, memory.last_action_s)


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
        if old in held and _is_sound(room, specs[job_id], proposal) and _is_lawful(view, workers, proposal):
            new = _moved(room, specs[job_id], proposal)
            workers[job_id] = tuple(new if worker == old else worker for worker in held)
            becauses[job_id] = proposal.because
            moves += 1
    return Layout(workers, becauses)


def finish_move(moving: Moving, job_id: JobId, to: Sequence[Worker], *, why: str) -> None:
    """Put a job where it was to go when it let go of everything, as a whole or not at all.

    A job that has another size by now is left as it is: that is another decision. `why` is the reason that the move was
    begun with.
    """
    wanted = {worker[:2]: worker.node for worker in to}
    held = moving.layout.workers_of(job_id)
    if job_id not in moving.view.by_id or {worker[:2] for worker in held} != wanted.keys():
        return
    because = Because(Why(why) if why in _WHYS else Why.REBALANCED)
    moves = [Move(job_id, worker, wanted[worker[:2]]) for worker in held if worker.node != wanted[worker[:2]]]
    moving.make(moves, because)


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


def _is_lawful(view: Snapshot, workers: Mapping[JobId, tuple[Worker, ...]], proposal: Proposal) -> bool:
    if not relates(view, view.by_id[proposal.job_id]):
        return True
    new = proposal.worker._replace(node=proposal.to, devices=())
    held = tuple(new if worker == proposal.worker else worker for worker in workers[proposal.job_id])
    return not unlawful(view, {**workers, proposal.job_id: held})


def _moved(room: Room, spec: JobSpec, proposal: Proposal) -> Worker:
    worker, at = proposal.worker, room.frame.index[proposal.to]
    room.release(spec, (worker,))
    return worker._replace(node=proposal.to, devices=room.take(at, spec.request_of(worker.role)))
