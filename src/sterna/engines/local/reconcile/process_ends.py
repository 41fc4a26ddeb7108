"""What the end of a process means: for itself, and for its job. Pure functions.

The success of the leader is the job's (or that of all workers, where the manifest says so), and is looked for before
failures. A failure is answered by the restart policy of the role: the job fails, or the process comes back, alone
where the others can train on without it and with its whole gang where they cannot. A process that was lost with its
node or its warden failed nobody.
"""

from typing import NamedTuple

from sterna.engines.local.reconcile.gang import Gang, Process
from sterna.engines.local.store.rows import Exit, ExitKind, WorkerRow
from sterna.engines.retrying import back_off_s, failures_now, is_tried_again
from sterna.model.jobs import Role
from sterna.model.lifecycle import Phase
from sterna.model.workload import Contract, Success
from sterna.protocol import Phase as Said
from sterna.protocol import Status

_BY_SIGNAL = 128  # what a shell adds to a signal's number


class Finish(NamedTuple):
    """The job is over."""

    phase: Phase
    reason: str
    message: str


class Restart(NamedTuple):
    """Processes ended that should not have: they come back, after a while."""

    uids: tuple[str, ...]  # those that ended
    whole: bool  # the others stop as well, and all begin anew
    counted: bool  # as failures
    message: str
    after_s: float


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
    finished = status is not None and status.phase is Said.FINISHED
    obeyed = status is not None and row.order_seq > 0 and status.ack >= row.order_seq
    if row.notice_s is None or finished:
        return ExitKind.COMPLETED
    return ExitKind.STOPPED if obeyed or stopped else ExitKind.COMPLETED


def verdict(gang: Gang) -> Finish | Restart | Abandon | None:
    """What the ends that nobody has answered yet mean for the job. None: nothing."""
    if (success := _success(gang)) is not None:
        return success
    if (late := _too_late(gang)) is not None:
        return late
    job = gang.job
    open_ends = [process for process in gang.processes if _is_open(process)]
    if not open_ends:
        return None
    untried = [process for process in open_ends if process.row.incarnation > job.incarnation]
    if untried and not any(process.row.incarnation == job.incarnation for process in open_ends):
        return Abandon(_uids(open_ends), _said(untried[0]))
    return _answer(gang, open_ends)


def _success(gang: Gang) -> Finish | None:
    if not gang.done:
        return None
    completed = {(process.row.role, process.row.ordinal) for process in gang.done}
    workers = {(worker.role, worker.ordinal) for worker in gang.members() if worker.role is Role.WORKER}
    leader = gang.leader()
    if gang.workload.success is Success.LEADER and leader is not None:
        if leader in completed:
            return Finish(Phase.SUCCEEDED, "Completed", f"{leader[0]} {leader[1]} ended with exit code 0")
        if leader[0] is not Role.WORKER:
            return None  # a chief has the last word, even when all workers are through
    if workers and workers <= completed:
        return Finish(Phase.SUCCEEDED, "Completed", "all workers ended with exit code 0")
    return None


def _too_late(gang: Gang) -> Finish | None:
    limit_s, first_s = gang.workload.run_policy.active_deadline_s, gang.job.first_started_s
    if limit_s is None or first_s is None or gang.now_s < first_s + limit_s:
        return None
    return Finish(
        Phase.FAILED, "DeadlineExceeded", f"it was active for longer than activeDeadlineSeconds ({limit_s:g})"
    )


def _is_open(process: Process) -> bool:
    end = process.row.exit
    bad = (ExitKind.FAILED, ExitKind.COULD_NOT_START, ExitKind.LOST)
    return end is not None and end.kind in bad and not process.row.answered


def _answer(gang: Gang, ends: list[Process]) -> Finish | Restart:
    job, whole = gang.job, any(_takes_all_along(gang, process) for process in ends)
    for process in ends:
        if _end(process).kind is ExitKind.COULD_NOT_START:
            return Finish(Phase.FAILED, _why_not_started(_end(process)), _said(process))
    failed = [process for process in ends if _end(process).kind is ExitKind.FAILED]
    if not failed:
        return Restart(_uids(ends), whole, counted=False, message=_said(ends[0]), after_s=0.0)
    for process in failed:
        if not is_tried_again(gang.workload.template(process.row.role).restart_policy, _code(_end(process))):
            return Finish(Phase.FAILED, "OutOfMemory" if _end(process).oom else "WorkerFailed", _said(process))
    failures = failures_now(job.failures, job.failed_s, gang.now_s)
    limit = gang.workload.run_policy.backoff_limit
    if limit is not None and failures > limit:
        message = f"{_said(failed[0])}; backoffLimit is {limit}"
        return Finish(Phase.FAILED, "BackoffLimitExceeded", message)
    return Restart(_uids(ends), whole, counted=True, message=_said(failed[0]), after_s=back_off_s(failures))


def _code(end: Exit) -> int | None:
    """As a shell tells it."""
    return _BY_SIGNAL + end.signal if end.signal is not None else end.code


def _takes_all_along(gang: Gang, process: Process) -> bool:
    """Can the others not train on without it?"""
    row = process.row
    match gang.workload.contract:
        case Contract.RESTART:
            return True
        case Contract.PARAMETER_SERVER:
            return row.role is Role.PS
        case Contract.TORCHRUN:
            return row.rank == 0  # it holds the store that all meet at
        case Contract.DISCOVERY:
            return False


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
