"""Moves become rows: each changes what is intended or known about one job, in memory; the caller commits."""

import secrets
import string
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from sterna.engines.contracts import Member, place_in_world
from sterna.engines.local.launch.warden.values import ProcessPhase as Held
from sterna.engines.local.reconcile import changes, job_conditions
from sterna.engines.local.reconcile.process_ends import Abandon, Restart, exit_kind
from sterna.engines.local.reconcile.row_moves import (
    Ended,
    Hold,
    Move,
    Notice,
    Plan,
    Promote,
    Release,
    Started,
    Terminate,
)
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import Exit, ExitKind, Heard, Stage, WorkerRow, WorkerState
from sterna.engines.local.world.job_value import sharing_spec
from sterna.lifecycle import transitions
from sterna.lifecycle.changes import ENDED_FIRST
from sterna.lifecycle.gang_roles import start_order
from sterna.lifecycle.outcome import Finish
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import Contract
from sterna.protocol import Order

Letters = Callable[[], str]


def five_letters() -> str:
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))


def carry_out(book: Book, job: LocalJob, move: Move, *, letters: Letters = five_letters) -> None:
    match move:
        case Plan():
            _plan(book, job, move, letters)
        case Notice():
            _notice(book, job, move)
        case Terminate(uid):
            _set(book, job, uid, term_s=book.timeline.now())
        case Hold():
            _hold(book, job)
        case Release():
            _release(book, job)
        case Promote(incarnation):
            _promote(book, job, incarnation)
        case Started(uid):
            _started(book, job, uid)
        case Ended(uid):
            _ended(book, job, uid)
        case Finish():
            finish(book, job, move)
        case Restart():
            _restart(book, job, move)
        case Abandon():
            _abandon(book, job, move)
        case _:
            assert_never(move)


def finish(book: Book, job: LocalJob, move: Finish) -> None:
    now_s = book.timeline.now()
    row = job.row
    if row.change is not None:
        changes.close(book, job, Stage.FAILED, message=ENDED_FIRST)
    book.set_job(job, **transitions.finished(row, job.spec, move, now_s), assigned=())
    well = move.phase is Phase.SUCCEEDED
    job_conditions.tell(book, job)
    book.event(move.reason, move.message, job=row.id, warning=not well, data={"phase": str(move.phase)})
    if well and row.progress is not None and row.progress.units_done > 0 and row.assigned:
        accelerator = book.accelerators.get(row.assigned[0].node, "")
        spec = sharing_spec(job)
        fresh = book.knowledge.completed(spec, accelerator, row.progress.units_done)
        book.learn(fresh, (spec.category, accelerator))


def _plan(book: Book, job: LocalJob, move: Plan, letters: Letters) -> None:
    row, now_s = job.row, book.timeline.now()
    ranks = _ranks(job, move)
    for worker in sorted(move.places, key=start_order):
        rank, world_size = ranks[worker]
        fresh = WorkerRow(
            uid=_fresh_uid(book, job, worker, letters),
            job_uid=row.uid,
            role=worker.role,
            ordinal=worker.ordinal,
            rank=rank,
            world_size=world_size,
            node=worker.node,
            devices=worker.devices,
            incarnation=move.incarnation,
            standby=move.standby,
            state=WorkerState.PLANNED,
            created_s=now_s,
        )
        book.set_worker(job, fresh)
        if row.held_s is not None:
            _order(book, job, fresh, Order.HOLD, "until all members are there")
    book.set_job(job, incarnation_last=max(row.incarnation_last, move.incarnation), retry_s=None)


def _ranks(job: LocalJob, move: Plan) -> dict[Worker, tuple[int, int]]:
    """Rank and world size of each newcomer.

    A gang that starts as a whole is numbered without gaps. A worker that joins one takes a number that no member
    has. One that trains by itself (parameter server, discovery) has its ordinal's, however often it is replaced.
    """
    workload = job.workload
    members = [Member(worker.role, worker.ordinal, "", 0) for worker in move.places]
    places = {worker: place_in_world(worker.role, worker.ordinal, members) for worker in move.places}
    if workload.contract in (Contract.PARAMETER_SERVER, Contract.DISCOVERY):
        leaders = sum(template.replicas for template in workload.roles if template.role in (Role.CHIEF, Role.MASTER))
        size = workload.workers_max + leaders
        shift = {Role.WORKER: leaders}
        return {
            worker: (0, 1) if place is None else (worker.ordinal + shift.get(worker.role, 0), size)
            for worker, place in places.items()
        }
    there = [p.row.rank for p in job.live if p.row.wanted and p.row.incarnation == move.incarnation]
    first = max(there, default=-1) + 1
    size = first + sum(place is not None for place in places.values())
    return {worker: (0, 1) if place is None else (first + place.rank, size) for worker, place in places.items()}


def _fresh_uid(book: Book, job: LocalJob, worker: Worker, letters: Letters) -> str:
    word = job.workload.template(worker.role).word
    while True:
        uid = f"{job.workload.name}-{word}-{worker.ordinal}-{letters()}"
        if uid not in book.by_process:
            return uid


def _notice(book: Book, job: LocalJob, move: Notice) -> None:
    row, now_s = job.processes[move.uid].row, book.timeline.now()
    grace_s = job.workload.template(row.role).program.grace_s if move.grace_s is None else move.grace_s
    fresh = replace(
        row,
        state=WorkerState.LEAVING,
        notice_s=now_s,
        urgent=move.urgent,
        kill_s=now_s + grace_s,
        order=Order.STOP.value,
        order_seq=row.order_seq + 1,
        reason=move.reason,
    )
    book.set_worker(job, fresh)


def _promote(book: Book, job: LocalJob, incarnation: int) -> None:
    for process in job.live:
        row = process.row
        if row.incarnation == incarnation and row.standby:
            _order(book, job, replace(row, standby=False), Order.RUN, "its turn has come")
    book.set_job(job, incarnation=incarnation)


def _hold(book: Book, job: LocalJob) -> None:
    for process in job.live:
        if process.row.wanted:
            _order(book, job, process.row, Order.HOLD, "members come and go")
    book.set_job(job, held_s=book.timeline.now())


def _release(book: Book, job: LocalJob) -> None:
    for process in job.live:
        if process.row.wanted:
            _order(book, job, process.row, Order.RUN, "all members are there")
    book.set_job(job, held_s=None)


def _order(book: Book, job: LocalJob, row: WorkerRow, order: Order, reason: str) -> None:
    book.set_worker(job, replace(row, order=order.value, order_seq=row.order_seq + 1, reason=reason))


def _started(book: Book, job: LocalJob, uid: str) -> None:
    process = job.processes[uid]
    state = process.state
    assert state is not None  # only said of those the warden runs
    new_state = WorkerState.RUNNING if process.row.state is WorkerState.PLANNED else process.row.state
    started_s = book.timeline.moment_of(state.started_mono_s)
    _set(book, job, uid, state=new_state, started_s=started_s, pid=state.pid)


def _ended(book: Book, job: LocalJob, uid: str) -> None:
    process = job.processes[uid]
    end = _exit_of(book, process)
    _set(book, job, uid, state=WorkerState.EXITED, exit=end, heard=_heard(process))
    row = process.row
    if end.kind in (ExitKind.FAILED, ExitKind.COULD_NOT_START, ExitKind.LOST):
        message = f"{row.role} {row.ordinal} ({uid}) on {row.node}: {end.message}"
        reason = "OutOfMemory" if end.oom else "ExitedWithCode" if end.kind is ExitKind.FAILED else "WorkerLost"
        book.event(
            "CannotStart" if end.kind is ExitKind.COULD_NOT_START else reason,
            message,
            job=job.row.id,
            warning=True,
            data={"worker": uid, "exitCode": end.code, "signal": end.signal},
        )


def _exit_of(book: Book, process: LocalProcess) -> Exit:
    row, state = process.row, process.state
    if state is None:
        return Exit(ExitKind.NEVER_STARTED, book.timeline.now())
    if state.phase is Held.FAILED:
        kind = ExitKind.COULD_NOT_START if row.notice_s is None else ExitKind.STOPPED
        return Exit(kind, book.timeline.now(), message=state.message)
    if state.phase is Held.LOST or state.exited is None:
        kind = ExitKind.LOST if row.notice_s is None else ExitKind.STOPPED
        return Exit(kind, book.timeline.now(), message=state.message or "lost with the process that held it")
    end = state.exited
    return Exit(
        exit_kind(row, code=end.code, stopped=end.stopped, status=process.status),
        book.timeline.moment_of(end.at_mono_s),
        end.code,
        end.signal,
        end.oom,
        end.message,
    )


def _heard(process: LocalProcess) -> Heard | None:
    status = process.status
    if status is None:
        return process.row.heard
    return Heard(
        status.phase.value,
        status.step,
        status.restored_step,
        status.first_step_mono_s,
        status.last_step_mono_s,
        status.save_s,
        status.load_s,
    )


def _restart(book: Book, job: LocalJob, move: Restart) -> None:
    row, now_s = job.row, book.timeline.now()
    for uid in move.uids:
        _set(book, job, uid, answered=True)
    reason = "RestartingAfterLoss" if move.counted is None else "RestartingAfterFailure"
    changes.begin_restart(book, job, why=reason, message=move.message)
    if move.whole:
        for process in job.live:
            if process.row.wanted:
                _notice(book, job, Notice(process.row.uid, "another worker of the gang failed", urgent=True))
    book.set_job(job, **transitions.tried_again(job.row, move.counted, now_s, whole=move.whole), warm=False)
    who = "all workers start again" if move.whole else "it starts again"
    message = f"{move.message}; {who}" + (f" in {move.counted.after_s:g} s" if move.counted is not None else "")
    book.event(reason, message, job=row.id, warning=True)


def _abandon(book: Book, job: LocalJob, move: Abandon) -> None:
    for uid in move.uids:
        _set(book, job, uid, answered=True)
    book.set_job(job, warm=False)
    message = f"the workers that were to take over did not come up ({move.message}); the old ones stop first"
    book.event("WarmStartFailed", message, job=job.row.id, warning=True)


def _set(book: Book, job: LocalJob, uid: str, **values: object) -> None:
    book.set_worker(job, replace(job.processes[uid].row, **values))  # type: ignore[arg-type]
