"""Moves that somebody asked for: each is a change that is open until the next cycle has tried to place it.

The asker is told at once what can never be (the same node, no such node, no room even if everybody else stayed as he
is); whether it is done is the core's decision, as a proposal within an ordinary cycle.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from sterna.engines.local.loop import begun_moves
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import ChangeRow, Stage
from sterna.engines.local.world.node_index import Roster, room_taken
from sterna.lifecycle.changes import ChangeKind
from sterna.model.errors import Conflict, InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.resources import NOTHING
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.rebalancing import Proposal, with_proposals
from sterna.planner.decide import Placing

ASKED = "Requested"


def ask(book: Book, roster: Roster, job: LocalJob, *, worker: int | None, to: str | None) -> ChangeRow:
    """Note that this worker, or the whole job, should move. `Conflict` tells why it cannot."""
    pending = [change for change in book.changes.values() if change.job_uid == job.row.uid and change.asked]
    if to is not None:
        roster.row(to)  # raises where there is no such node
    for change in pending:
        if (change.worker, change.to) == (worker, to) or (to is None and change.worker == worker):
            return change
    if not job.row.assigned:
        raise Conflict(f"job {job.row.id} holds no workers: there is nothing to move")
    moving = _moving(job, worker)
    target = NodeId(to) if to is not None else _best_target(book, roster, job, moving)
    movers = [mover for mover in moving if mover.node != target]
    if not movers:
        raise Conflict(f"job {job.row.id} is on {target} already")
    if (why_not := _why_not(book, roster, job, movers, target)) is not None:
        raise Conflict(why_not)
    return book.new_change(
        job,
        kind=ChangeKind.MIGRATION,
        why=ASKED,
        message=f"somebody asked for it to move to {target}",
        before=job.row.assigned,
        worker=worker,
        to=target,
        asked=True,
    )


def placing(book: Book, place: Placing, on_proposals: Callable[[bool], None]) -> Placing:
    """The placement, and on top of it moves that were begun, and what was asked for and fits."""

    def placed(view: Snapshot, target: Target) -> Layout:
        layout = place(view, target)
        for change in begun_moves.begun(book):
            before, layout = layout, begun_moves.finished(view, layout, change)
            on_proposals(layout is not before)
        proposals = [p for change in _waiting(book) for p in _proposals(view, layout, change)]
        on_proposals(bool(proposals))
        return with_proposals(view, layout, proposals, moves_max=len(proposals)) if proposals else layout

    return placed


def refuse_rest(book: Book) -> None:
    """After a cycle: what was asked for and not begun by it could not be placed."""
    for change in _waiting(book):
        job = book.jobs.get(change.job_id)
        gone = job is None or job.row.finished
        message = "the job has ended" if gone else f"there is no room for it on {change.to} now"
        book.set_change(replace(change, stage=Stage.REFUSED, finished_s=book.timeline.now(), message=message))
        book.event("MigrationRefused", message, job=change.job_id, warning=True, data={"change": change.id})


def _waiting(book: Book) -> list[ChangeRow]:
    """Asked for, and not yet what its job is about."""
    waiting = []
    for change in book.changes.values():
        job = book.jobs.get(change.job_id)
        if change.asked and (job is None or job.row.change != change.id):
            waiting.append(change)
    return waiting


def _proposals(view: Snapshot, layout: Layout, change: ChangeRow) -> list[Proposal]:
    job = view.by_id.get(change.job_id)
    if job is None or change.to is None:
        return []
    because = Because(Why.REBALANCED, (("asked_for", change.to),))
    return [
        Proposal(job.id, worker, change.to, because, benefit_s=math.inf, cost_s=0.0)
        for worker in layout.workers_of(job.id)
        if worker.node != change.to and _is_meant(worker, change.worker)
    ]


def _moving(job: LocalJob, ordinal: int | None) -> list[Worker]:
    found = [worker for worker in job.row.assigned if _is_meant(worker, ordinal)]
    if not found:
        ordinals = ", ".join(str(worker.ordinal) for worker in job.row.assigned if worker.role is Role.WORKER)
        raise InvalidRequest(field="worker", value=ordinal, expected=f"one of the job's workers: {ordinals}")
    return found


def _is_meant(worker: Worker, ordinal: int | None) -> bool:
    return ordinal is None or (worker.role is Role.WORKER and worker.ordinal == ordinal)


def _best_target(book: Book, roster: Roster, job: LocalJob, moving: list[Worker]) -> NodeId:
    here = {worker.node for worker in moving}
    fitting = [
        node
        for node in roster.cluster.nodes
        if node.id not in here and _why_not(book, roster, job, moving, node.id) is None
    ]
    if not fitting:
        raise Conflict(f"no other node has room for the workers of job {job.row.id} that should move")
    used = room_taken(book)
    return max(fitting, key=lambda node: (_free(node, used.get(node.id, NOTHING)[2]), node.id)).id


def _free(node: Node, taken_gpu_milli: int) -> int:
    return node.allocatable.gpu_milli - taken_gpu_milli


def _why_not(book: Book, roster: Roster, job: LocalJob, movers: list[Worker], to: NodeId) -> str | None:
    """Why these cannot go there beside whoever is there now. None: they can."""
    node = roster.cluster.by_id[to]
    if not node.admits(job.spec.demands):
        why = (
            "it is being drained" if node.cordoned else "it is not ready" if not node.ready else "it does not admit it"
        )
        return f"job {job.row.id} cannot move to {to}: {why}"
    if job.spec.accelerator not in (None, node.accelerator):
        return f"job {job.row.id} wants {job.spec.accelerator}, which {to} does not have"
    needed = NOTHING
    for worker in movers:
        needed = needed.plus(job.spec.request_of(worker.role))
    free = node.allocatable.minus(room_taken(book).get(to, NOTHING))
    for have, take, what in zip(free[:3], needed[:3], ("CPU", "bytes of memory", "GPU"), strict=True):
        if take > max(0, have):
            milli = "" if what == "bytes of memory" else "milli-"
            return f"node {to} has {max(0, have)} {milli}{what} free, and the move needs {take}"
    return None
