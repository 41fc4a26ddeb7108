"""Moves that people asked for: each is a change that is open until the next cycle has tried to place it.

The asker is told at once what can never be (the same node, no such node, no room even if all others stay as they are);
whether it is done is the core's decision, as a proposal within an ordinary cycle. What can be, and what fits, is told
by `lifecycle/asked_moves.py`, as in every engine.
"""

from collections.abc import Callable
from dataclasses import replace

from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import ChangeRow, Stage
from sterna.engines.local.world.node_index import Roster
from sterna.lifecycle.asked_moves import Ask, Denied, Granted, Refusal, ask_of_job, cannot_move, tried
from sterna.lifecycle.begun_moves import finish, is_begun
from sterna.lifecycle.changes import ChangeKind
from sterna.model.errors import Conflict, InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.moving import Moving
from sterna.planner.decide import Placing
from sterna.planner.obedience import with_neighbourhood

ASKED = "Requested"


def ask(book: Book, roster: Roster, job: LocalJob, *, worker: int | None, to: str | None) -> ChangeRow:
    """Note that this worker, or the whole job, should move. `Conflict` tells why it cannot."""
    pending = [change for change in book.changes.values() if change.job_uid == job.row.uid and change.asked]
    if to is not None:
        roster.row(to)  # raises where there is no such node
    for change in pending:
        if (change.worker, change.to) == (worker, to) or (to is None and change.worker == worker):
            return change
    target = None if to is None else NodeId(to)
    held = job.row.assigned
    answer = cannot_move(job.row.id, held, worker=worker, to=target) or _tried_now(
        book, roster, ask_of_job("", job.row.id, held, worker=worker, to=target)
    )
    if isinstance(answer, Denied):
        if answer.refusal is Refusal.NO_SUCH_WORKER:
            raise InvalidRequest(field="worker", value=worker, expected=f"one that it has: {answer.message}")
        raise Conflict(answer.message)
    if target is None and len(answer.reached) == 1:
        target = answer.reached[0]
    return book.new_change(
        job,
        kind=ChangeKind.MIGRATION,
        why=ASKED,
        message=f"it was asked to move to {target or 'other nodes'}",
        before=held,
        worker=worker,
        to=target,
        asked=True,
    )


def placing(book: Book, place: Placing, on_proposals: Callable[[bool], None]) -> Placing:
    """The placement, and on top of it moves that were begun, and what was asked for and fits."""

    def placed(view: Snapshot, target: Target) -> Layout:
        layout = place(view, target)
        moving = Moving(view, layout)
        finish(moving, _begun(book))
        for change in _waiting(book):
            asked = ask_of_job(str(change.id), change.job_id, change.before, worker=change.worker, to=change.to)
            tried(moving, asked, Because(Why.REQUESTED, (("to", change.to or "another node"),)))
        on_proposals(moving.layout is not layout)
        return moving.layout

    return placed


def refuse_rest(book: Book) -> None:
    """After a cycle: what was asked for and not begun by it could not be placed."""
    for change in _waiting(book):
        job = book.jobs.get(change.job_id)
        gone = job is None or job.row.finished
        where = f"on {change.to}" if change.to is not None else "elsewhere"
        message = "the job has ended" if gone else f"there is no room for it {where} now"
        book.set_change(replace(change, stage=Stage.REFUSED, finished_s=book.timeline.now(), message=message))
        book.event("MigrationRefused", message, job=change.job_id, warning=True, data={"change": change.id})


def _tried_now(book: Book, roster: Roster, asked: Ask) -> Granted | Denied:
    """What would come of it if all other jobs stayed as they are."""
    values = [job.value for job in book.busy.values() if job.value is not None]
    view = Snapshot.of(now_s=book.timeline.now(), nodes=roster.cluster.nodes, jobs=values)
    moving = Moving(with_neighbourhood(view), Layout({value.id: value.workers for value in values}))
    answer = tried(moving, asked, Because(Why.REQUESTED))
    return Denied(Refusal.NOTHING_TO_MOVE, "it holds no workers now") if answer is None else answer


def _begun(book: Book) -> dict[JobId, ChangeRow]:
    """Moves of jobs that have let go of everything."""
    found = {}
    for change in book.changes.values():
        job = book.jobs.get(change.job_id)
        if job is not None and job.row.change == change.id and is_begun(job.row.phase, job.row.assigned, change):
            found[change.job_id] = change
    return found


def _waiting(book: Book) -> list[ChangeRow]:
    """Asked for, and not yet what its job is about."""
    waiting = []
    for change in book.changes.values():
        job = book.jobs.get(change.job_id)
        if change.asked and (job is None or job.row.change != change.id):
            waiting.append(change)
    return waiting
