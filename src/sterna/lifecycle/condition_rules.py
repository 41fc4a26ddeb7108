"""Which condition of a job is true when: from how the job stands and what its workers do. Pure.

Those that users of these kinds know (Created, Running, Restarting, Suspended, Succeeded, Failed) follow the rules of
`model/conditions.py`; their reasons begin with the kind. Ours are always there, True or False, until the job ends. How
conditions are written down is the engine's matter.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.gang_roles import Place, leader_of, size_of
from sterna.lifecycle.job_state import OpenChange
from sterna.model.conditions import OURS, Conditions, ConditionType, Status, ended, is_true, said, with_condition
from sterna.model.ids import JobId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import FINISHED, Phase
from sterna.model.why import Because
from sterna.model.workload import Workload

Workers = tuple[Worker, ...]

_FOR_CHANGES = {ConditionType.RESIZING: ChangeKind.RESIZE, ConditionType.MIGRATING: ChangeKind.MIGRATION}
_MESSAGE_MAX = 1024


class Kinded(StrEnum):
    """Reasons that begin with the kind's name."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"


def of_kind(kind: str, reason: Kinded) -> str:
    """`TFJobRunning`."""
    return f"{kind}{reason}"


def invalid_spec(kind: str) -> str:
    """`InvalidTFJobSpec`."""
    return f"Invalid{kind}Spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What conditions are told from."""

    kind: str  # TFJob, ...
    job_id: JobId
    generation: int
    phase: Phase
    reason: str  # why it waits, runs or ended
    message: str
    held: Workers
    change: OpenChange | None  # None: none is open
    latest: str  # kind of the latest change, open or over. Empty: there was none
    trains: bool  # see `trains` below
    all_ready: bool  # every worker that it should hold is there and ready, or through
    kept_out: Because | None = None  # why workers are not let in without which the others train nothing. None: all are
    problem: str = ""  # why its spec as it is now is not followed: field, value, what would do. Empty: it is
    unhonoured: str = ""  # what its spec asks for and does not get. Empty: it gets all of it


class News(NamedTuple):
    type: ConditionType
    true: bool
    reason: str
    message: str


def conditions_now(known: Conditions, facts: Facts, now_s: float) -> Conditions:
    """The list after everything that can be said now."""
    for news in (*_usual(facts, known), *_ours(facts), *_edit(facts, known), *_ending(facts)):
        known = told(known, news, generation=facts.generation, now_s=now_s)
    return known


def told(known: Conditions, news: News, *, generation: int, now_s: float) -> Conditions:
    """The list after one piece of news."""
    status = Status.TRUE if news.true else Status.FALSE
    message = news.message[:_MESSAGE_MAX]
    fresh = said(news.type, status, reason=news.reason, message=message, now_s=now_s, generation=generation)
    return with_condition(known, fresh)


def trains(workload: Workload, held: Workers, running: Collection[Place]) -> bool:
    """A job with a chief, master or launcher runs when that one does; any other when any worker of it does."""
    leader = leader_of(workload, held)
    if leader is not None and leader[0] is not Role.WORKER:
        return leader in running
    return any(role is Role.WORKER for role, _ in running)


def _usual(facts: Facts, known: Conditions) -> Iterator[News]:
    kind, name, change = facts.kind, f"{facts.kind} {facts.job_id}", facts.change
    if facts.unhonoured:
        yield News(ConditionType.FIELDS_NOT_HONOURED, True, "FieldsNotHonoured", facts.unhonoured)
    elif is_true(known, ConditionType.FIELDS_NOT_HONOURED):
        yield News(ConditionType.FIELDS_NOT_HONOURED, False, "AllHonoured", "nothing in its spec is left out")
    if not ended(known):
        yield News(ConditionType.CREATED, True, of_kind(kind, Kinded.CREATED), f"{name} is created.")
    if facts.phase in FINISHED:
        return
    if facts.phase is Phase.SUSPENDED:
        yield News(ConditionType.SUSPENDED, True, of_kind(kind, Kinded.SUSPENDED), f"{name} is suspended.")
        return
    if is_true(known, ConditionType.SUSPENDED):
        yield News(ConditionType.SUSPENDED, False, of_kind(kind, Kinded.RESUMED), f"{name} is resumed.")
    if change is not None and change.kind == ChangeKind.RESTART:
        message = f"{name} is restarting because {change.message}."
        yield News(ConditionType.RESTARTING, True, of_kind(kind, Kinded.RESTARTING), message)
    elif facts.kept_out is not None:
        if is_true(known, ConditionType.RUNNING):
            yield News(ConditionType.RUNNING, False, str(facts.kept_out.why), facts.kept_out.sentence)
    elif facts.held and facts.trains:
        yield News(ConditionType.RUNNING, True, of_kind(kind, Kinded.RUNNING), f"{name} is running.")
    elif facts.phase is Phase.WAITING and is_true(known, ConditionType.RUNNING):
        yield News(ConditionType.RUNNING, False, facts.reason or "Waiting", facts.message)


def _ours(facts: Facts) -> Iterator[News]:
    held, change = facts.held, facts.change
    if facts.phase in FINISHED:
        for kind in OURS:
            yield News(kind, False, facts.phase.value, "the job has ended")
        return
    waits = (facts.reason or "Waiting", facts.message or "it has not been placed yet")
    if held:
        yield News(ConditionType.ADMITTED, True, "Placed", _where(held))
    else:
        yield News(ConditionType.ADMITTED, False, *waits)
    if facts.all_ready:
        yield News(ConditionType.GANG_READY, True, "AllReady", "every worker it should hold is ready")
    else:
        missing = "not every worker is ready" if held else "it holds nothing"
        yield News(ConditionType.GANG_READY, False, "NotReady" if held else "NotPlaced", missing)
    for kind, kind_of_change in _FOR_CHANGES.items():
        if change is not None and change.kind == kind_of_change:
            message = f"{_where(change.before)} -> {_where(change.after)}: {change.message}"
            yield News(kind, True, change.why or "Decided", message)
        else:
            yield News(kind, False, "NothingChanges", "")
    lost_it = not held and facts.phase is Phase.WAITING and facts.latest == ChangeKind.PREEMPTION
    yield News(ConditionType.PREEMPTED, lost_it, *(waits if lost_it else ("NotPreempted", "")))


def _edit(facts: Facts, known: Conditions) -> Iterator[News]:
    """There only from the first edit on that is not followed."""
    if facts.phase in FINISHED:
        return
    if facts.problem:
        yield edit_ignored(facts.kind, facts.problem)
    elif is_true(known, ConditionType.EDIT_IGNORED):
        yield News(ConditionType.EDIT_IGNORED, False, "SpecFollowed", "its spec is valid again, and is followed")


def edit_ignored(kind: str, problem: str) -> News:
    return News(ConditionType.EDIT_IGNORED, True, invalid_spec(kind), problem)


def _ending(facts: Facts) -> Iterator[News]:
    kind = facts.kind
    if facts.phase is Phase.SUCCEEDED:
        message = f"{kind} {facts.job_id} successfully completed: {facts.message}."
        yield News(ConditionType.SUCCEEDED, True, of_kind(kind, Kinded.SUCCEEDED), message)
    elif facts.phase is Phase.FAILED:
        message = f"{kind} {facts.job_id} failed: {facts.message}."
        yield News(ConditionType.FAILED, True, of_kind(kind, Kinded.FAILED), message)


def _where(workers: Workers) -> str:
    if not workers:
        return "nothing"
    nodes = sorted({worker.node for worker in workers})
    shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")
    count = size_of(workers)
    return f"{count} worker{'s' if count != 1 else ''} on {shown}"
