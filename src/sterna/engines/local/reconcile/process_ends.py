"""What the end of a process means: for itself, and for its job. Pure functions.

The rules are every engine's (`lifecycle/outcome.py`); here is which processes ended, and which come back with them: a
process comes back alone where the others can train on without it, and with its whole gang where they cannot. One that
was lost with its node or its warden is no failure.
"""

from typing import NamedTuple

from sterna.engines.local.reconcile.gang import Gang, Process, carries_the_job
from sterna.engines.local.store.rows import Exit, ExitKind, WorkerRow
from sterna.lifecycle.outcome import Failure, Finish, TryAgain, another_try, final_failure, success, too_late
from sterna.model.phases import Phase
from sterna.protocol import Status, WorkerPhase

_BY_SIGNAL = 128  # what a shell adds to a signal's number


class Restart(NamedTuple):
    """Processes ended that should not have: they come back, after a while."""

    uids: tuple[str, ...]  # those that ended
    whole: bool  # the others stop as well, and all begin anew
    counted: TryAgain | None  # as failures. None: it is none
    message: str


class Abandon(NamedTuple):
    """The gang that was to take over did not come up: what is there stops first, and then it is tried again."""

    uids: tuple[str, ...]
    message: str


def exit_kind(row: WorkerRow, *, code: int | None, stopped: bool, status: Status | None) -> ExitKind:
    """Of a process that ran its program and ended with `code`, or by a signal.

    `stopped`: the warden had asked it to end by then. That this was intended (`term_s`) says nothing: a program that
    was through before it was asked has done its work, and must not do it again.
    """
    if code != 0:
        return ExitKind.FAILED if row.notice_s is None else ExitKind.STOPPED
    finished = status is not None and status.phase is WorkerPhase.FINISHED
    obeyed = status is not None and row.order_seq > 0 and status.ack >= row.order_seq
    if row.notice_s is None or finished:
        return ExitKind.COMPLETED
    return ExitKind.STOPPED if obeyed or stopped else ExitKind.COMPLETED


def verdict(gang: Gang) -> Finish | Restart | Abandon | None:
    """What the ends that are not answered yet mean for the job. None: nothing."""
    job = gang.job
    completed = {(process.row.role, process.row.ordinal) for process in gang.done}
    over = success(gang.workload, gang.members(), completed) or too_late(gang.workload, job.active_since_s, gang.now_s)
    if over is not None:
        return over
    open_ends = [process for process in gang.processes if _is_open(process)]
    if not open_ends:
        return None
    untried = [process for process in open_ends if process.row.incarnation > job.incarnation]
    if untried and not any(process.row.incarnation == job.incarnation for process in open_ends):
        return Abandon(_uids(open_ends), _said(untried[0]))
    return _answer(gang, open_ends)


def _is_open(process: Process) -> bool:
    end = process.row.exit
    bad = (ExitKind.FAILED, ExitKind.COULD_NOT_START, ExitKind.LOST)
    return end is not None and end.kind in bad and not process.row.answered


def _answer(gang: Gang, ends: list[Process]) -> Finish | Restart:
    job, whole = gang.job, any(carries_the_job(gang.workload, process.row) for process in ends)
    for process in ends:
        if _end(process).kind is ExitKind.COULD_NOT_START:
            return Finish(Phase.FAILED, _why_not_started(_end(process)), _said(process))
    failed = [process for process in ends if _end(process).kind is ExitKind.FAILED]
    if not failed:
        return Restart(_uids(ends), whole, counted=None, message=_said(ends[0]))
    if (final := final_failure([_failure(gang, process) for process in failed])) is not None:
        return final
    message = _said(failed[0])
    again = another_try(gang.workload, failures=job.failures, failed_s=job.failed_s, now_s=gang.now_s, message=message)
    return again if isinstance(again, Finish) else Restart(_uids(ends), whole, counted=again, message=message)


def _failure(gang: Gang, process: Process) -> Failure:
    end = _end(process)
    return Failure(gang.workload.template(process.row.role).restart_policy, _code(end), end.oom, _said(process))


def _code(end: Exit) -> int | None:
    """As a shell tells it."""
    return _BY_SIGNAL + end.signal if end.signal is not None else end.code


def _why_not_started(end: Exit) -> str:
    return "CommandNotFound" if "not found" in end.message.lower() else "CannotStart"


def _said(process: Process) -> str:
    row = process.row
    return f"{row.role} {row.ordinal} on {row.node}: {_end(process).message or 'ended'}"


def _end(process: Process) -> Exit:
    assert process.row.exit is not None  # only asked of those that ended
    return process.row.exit


def _uids(processes: list[Process]) -> tuple[str, ...]:
    return tuple(process.uid for process in processes)
