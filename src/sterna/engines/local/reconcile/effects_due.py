"""What the world lacks of what is intended: a pure comparison of rows with what was last seen outside.

Every effect may be carried out twice: after a crash it is not known whether the first time counted.
"""

from typing import NamedTuple

from sterna.engines.local.reconcile.gang import Gang, Process, may_be_launched
from sterna.engines.local.store.rows import WorkerState
from sterna.protocol import WorkerPhase


class RaiseFence(NamedTuple):
    """Older incarnations may write no checkpoint any more."""

    incarnation: int


class WriteOrder(NamedTuple):
    uid: str


class LaunchProcess(NamedTuple):
    uid: str


class StopProcess(NamedTuple):
    """SIGTERM now, SIGKILL when its grace is over: the warden keeps the deadline."""

    uid: str


class RunHook(NamedTuple):
    uid: str
    name: str  # postStart or preStop


class ReplaceTraining(NamedTuple):
    """A member has left: the agent that stays must start its processes anew, which it does when they end."""

    uid: str


class ForgetEnd(NamedTuple):
    """The warden need not remember these any more."""

    uids: tuple[str, ...]


Effect = ReplaceTraining | RaiseFence | WriteOrder | LaunchProcess | StopProcess | RunHook | ForgetEnd

POST_START, PRE_STOP = "postStart", "preStop"


def due(gang: Gang, *, fence: int, hooks_begun: frozenset[tuple[str, str]]) -> list[Effect]:
    """In the order in which they must happen. `hooks_begun` are (uid, name) that need not be begun again."""
    effects: list[Effect] = []
    incarnation = gang.job.incarnation
    if fence < incarnation and gang.of(incarnation):
        effects.append(RaiseFence(incarnation))
    for process in gang.live:
        row = process.row
        if row.order_seq > process.order_written and (process.known or row.wanted):
            effects.append(WriteOrder(row.uid))
        if may_be_launched(gang, process):
            effects.append(LaunchProcess(row.uid))
        program = gang.workload.template(row.role).program
        if process.runs and row.started_s is not None:
            if program.post_start and row.wanted and (row.uid, POST_START) not in hooks_begun:
                effects.append(RunHook(row.uid, POST_START))
            leaves = row.state is WorkerState.LEAVING and not row.urgent and not row.standby
            if program.pre_stop and leaves and (row.uid, PRE_STOP) not in hooks_begun:
                effects.append(RunHook(row.uid, PRE_STOP))
        if _must_meet_again(gang, process):
            effects.append(ReplaceTraining(row.uid))
        if row.term_s is not None and process.runs and process.stop_told_s != row.kill_s:
            effects.append(StopProcess(row.uid))
    if forgotten := tuple(process.uid for process in gang.processes if process.known and not process.row.live):
        effects.append(ForgetEnd(forgotten))
    return effects


def _must_meet_again(gang: Gang, process: Process) -> bool:
    """A member left while all stood still, and this one still stands in the world with that member."""
    held_s, row, status = gang.job.held_s, process.row, process.status
    if held_s is None or not row.wanted or not process.runs or status is None or not process.stands:
        return False
    left = any(p.row.notice_s is not None and p.row.notice_s >= held_s for p in gang.processes if not p.row.live)
    gone = len(gang.live) == len(gang.wanted)
    return left and gone and status.phase is WorkerPhase.COMMITTED and status.pid != process.replaced_pid
