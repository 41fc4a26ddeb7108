"""What should change about one job's processes, now: a pure function of one look at them.

    next_moves(gang) -> moves      changes of intention, carried out on rows (`row_changes.py`) and committed
    effects.due(gang) -> effects   what the world lacks of what is intended

Looked at again after every change, so nothing here remembers anything: a crash at any point finds rows and world as
they are, and goes on from there. What an end means for the job is `process_ends.py`.
"""

from typing import NamedTuple

from sterna.engines.local.reconcile.gang import LINGER_S, REGROUP_S, WIND_DOWN_S, Gang, Process, carries_the_job
from sterna.engines.local.reconcile.process_ends import Abandon, Restart, verdict
from sterna.engines.local.store.rows import WorkerState
from sterna.lifecycle.outcome import Finish, deadline_s
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import Contract
from sterna.protocol import WorkerPhase

_TERM_SHARE = 0.8  # of the grace period that a checkpoint may take, before SIGTERM is sent


class Plan(NamedTuple):
    """New processes for these places."""

    places: tuple[Worker, ...]
    incarnation: int
    standby: bool


class Notice(NamedTuple):
    """A process is to go."""

    uid: str
    reason: str
    urgent: bool = False  # there is nothing to wait for: it trains nothing that could be saved
    grace_s: float | None = None  # None: what its manifest says


class Terminate(NamedTuple):
    """Its checkpoint is safe, or will not come: SIGTERM."""

    uid: str


class Promote(NamedTuple):
    """This incarnation trains from now on; older ones may write no more."""

    incarnation: int


class Started(NamedTuple):
    """The warden says it runs."""

    uid: str


class Ended(NamedTuple):
    """The warden says it ended, or never began."""

    uid: str


class Hold(NamedTuple):
    """All members save and stand still, so that others may come or go."""


class Release(NamedTuple):
    """All members train on, or begin."""


Move = Hold | Release | Plan | Notice | Terminate | Promote | Started | Ended | Finish | Restart | Abandon


def next_moves(gang: Gang) -> list[Move]:
    """What to change first. Call again with the result until there is nothing left."""
    if news := _news(gang):
        return news
    if gang.job.finished or gang.job.deleting:
        return [*_wind_down(gang), *_leaving(gang)]
    if (found := verdict(gang)) is not None:
        return [found]
    match gang.workload.contract:
        case Contract.RESTART:
            changes = _renewal(gang)
        case Contract.TORCHRUN:
            changes = _regrouping(gang)
        case _:
            changes = _membership(gang)
    return [*changes, *_leaving(gang)]


def next_moment(gang: Gang) -> float | None:
    """When to look again although nothing happens. None: nothing is waited for."""
    moments = [gang.job.retry_s] if gang.job.retry_s is not None and gang.slots else []
    if gang.job.held_s is not None:
        moments += [gang.job.held_s + gang.grace_s(Role.WORKER), gang.job.held_s + REGROUP_S]
    if gang.job.finished and gang.wanted and gang.job.finished_s is not None:
        moments.append(gang.job.finished_s + WIND_DOWN_S)
    over_s = deadline_s(gang.workload, gang.job.active_since_s)
    if over_s is not None and not gang.job.finished:
        moments.append(over_s)
    for process in gang.live:
        row = process.row
        if row.state is WorkerState.LEAVING and row.term_s is None and row.notice_s is not None:
            moments.append(_term_due_s(gang, process))
        if row.standby and row.wanted and gang.job.warm:
            moments.append(row.created_s + gang.warm_s)
    later = [moment for moment in moments if moment > gang.now_s]
    return min(later, default=None)


def _news(gang: Gang) -> list[Move]:
    """What the warden knows and the rows do not."""
    moves: list[Move] = []
    for process in gang.live:
        row = process.row
        if process.ended or (row.state is WorkerState.LEAVING and not process.known and row.started_s is None):
            moves.append(Ended(row.uid))
        elif process.runs and row.started_s is None:
            moves.append(Started(row.uid))
    return moves


def _wind_down(gang: Gang) -> list[Move]:
    """The job is over: processes that run are told to go; after a success they get a moment to end by themselves."""
    job = gang.job
    patient = job.phase is Phase.SUCCEEDED and not job.deleting and job.finished_s is not None
    over = gang.now_s >= job.finished_s + WIND_DOWN_S if patient and job.finished_s is not None else True
    reason = "the job is deleted" if job.deleting else "the job has ended"
    return [
        Notice(process.uid, reason, urgent=True)
        for process in gang.wanted
        if over or process.row.role is Role.PS or process.row.state is WorkerState.PLANNED
    ]


def _renewal(gang: Gang) -> list[Move]:
    """A gang of which none survives a change: the next one as a whole, warm beside the old one or cold after it."""
    job, slots = gang.job, set(gang.slots)
    current = gang.of(job.incarnation)
    following = tuple(process for process in gang.wanted if process.row.incarnation > job.incarnation)
    if slots and slots == {process.row.place for process in (*current, *gang.done)}:
        return [Notice(process.uid, "the change was taken back", urgent=True) for process in following]
    why = job.message if slots else _why_nothing(gang)
    if slots and following and slots == {process.row.place for process in following}:
        return _handover(gang, current, following, why)
    moves: list[Move] = [Notice(process.uid, "another change came first", urgent=True) for process in following]
    warm = job.warm and bool(current)
    if not slots or not warm:
        moves += [Notice(process.uid, why) for process in current]
    if slots and not _backs_off(gang):
        moves.append(Plan(gang.slots, job.incarnation_last + 1, standby=warm))
    return moves


def _handover(gang: Gang, current: tuple[Process, ...], following: tuple[Process, ...], why: str) -> list[Move]:
    """Stop the old gang once the new one is ready; let the new one train once the old one's state is safe."""
    incarnation = following[0].row.incarnation
    if gang.job.warm and current:
        since_s = min(process.row.created_s for process in following)
        if not all(process.ready for process in following) and gang.now_s < since_s + gang.warm_s:
            return []
    if current:
        return [Notice(process.uid, why) for process in current]
    older = gang.older_than(incarnation)
    standby = all(process.row.standby for process in following)
    if all(process.safe for process in older) if standby else not older:
        return [Promote(incarnation)]
    return []


def _membership(gang: Gang) -> list[Move]:
    """A gang whose members come and go one by one."""
    job, slots, wanted = gang.job, set(gang.slots), gang.wanted
    leavers = [process for process in wanted if process.row.place not in slots]
    why = job.message if slots else _why_nothing(gang)
    if slots and any(carries_the_job(gang.workload, process.row) for process in leavers):
        leavers = list(wanted)  # without it the others could not train on
    moves: list[Move] = [Notice(process.uid, why) for process in leavers]
    if moves:
        return moves
    filled = {process.row.place for process in (*wanted, *gang.done)}
    missing = tuple(worker for worker in gang.slots if worker not in filled)
    if missing and not _backs_off(gang):
        incarnation = max((process.row.incarnation for process in wanted), default=job.incarnation_last + 1)
        if not wanted and gang.done:
            incarnation = job.incarnation  # the others are through; this one is not
        moves.append(Plan(missing, incarnation, standby=False))
    following = {process.row.incarnation for process in wanted if process.row.incarnation > job.incarnation}
    moves += [Promote(incarnation) for incarnation in sorted(following) if not gang.older_than(incarnation)]
    return moves


def _regrouping(gang: Gang) -> list[Move]:
    """Agents that meet again whenever one comes or goes: their processes save and stand still meanwhile.

    Those that leave do so once all stand; the agents that stay start their processes anew, which wait before their
    first step until all are there. Programs that never attached come and go as they are.
    """
    job, wanted = gang.job, gang.wanted
    leavers = [process for process in wanted if process.row.place not in gang.slots]
    filled = {process.row.place for process in (*wanted, *gang.done)}
    missing = tuple(worker for worker in gang.slots if worker not in filled)
    stay = [process for process in wanted if process.runs and process not in leavers]
    speak = [process for process in wanted if process.runs and process.attached]
    whole = not gang.slots or any(carries_the_job(gang.workload, process.row) for process in leavers)
    if job.held_s is None:
        regroups = (leavers or (missing and not _backs_off(gang))) and stay and speak and not whole
        return [Hold()] if regroups else _membership(gang)
    stood = all(process.stands for process in speak) or gang.now_s >= job.held_s + gang.grace_s(Role.WORKER)
    if not stood and not whole:
        return []
    if leavers and not whole:
        return [Notice(process.uid, job.message, urgent=True) for process in leavers]
    if leavers or missing:
        return _membership(gang)
    there = len(gang.live) == len(wanted) and all(process.runs for process in wanted)
    again = there and all(
        process.status is not None and process.status.phase is WorkerPhase.READY for process in wanted
    )
    return [Release()] if again or gang.now_s >= job.held_s + REGROUP_S else []


def _leaving(gang: Gang) -> list[Move]:
    """Those that were told to go: SIGTERM when nothing is left to wait for."""
    return [
        Terminate(process.uid)
        for process in gang.live
        if process.row.state is WorkerState.LEAVING
        and process.row.term_s is None
        and process.known
        and gang.now_s >= _term_due_s(gang, process)
    ]


def _term_due_s(gang: Gang, process: Process) -> float:
    row = process.row
    told_s, kill_s = row.notice_s or 0.0, row.kill_s or 0.0
    at_the_latest = told_s + (kill_s - told_s) * _TERM_SHARE
    if row.urgent or row.standby:
        return told_s
    if not process.hook_done:
        return at_the_latest
    if not process.attached:
        return at_the_latest if _is_waited_for(gang, process) else told_s
    return at_the_latest if process.committed_s is None else min(process.committed_s + LINGER_S, at_the_latest)


def _is_waited_for(gang: Gang, process: Process) -> bool:
    """May others that were told to go have trained something that they can save only together with this one?

    It may have attached a moment ago, which has not been read yet, and the gang made its first step since.
    """
    if gang.workload.contract not in (Contract.RESTART, Contract.TORCHRUN):
        return False
    return any(
        other.attached and not other.safe and other.row.notice_s is not None
        for other in gang.live
        if other.row.incarnation == process.row.incarnation
    )


def _backs_off(gang: Gang) -> bool:
    return gang.job.retry_s is not None and gang.now_s < gang.job.retry_s


def _why_nothing(gang: Gang) -> str:
    if gang.closing:
        return "the engine is being stopped"
    return "its owner suspended it" if gang.job.suspended else gang.job.message
