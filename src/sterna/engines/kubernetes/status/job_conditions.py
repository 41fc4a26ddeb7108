"""What a job's conditions say, from how it stands and what its pods do. Pure.

Those that users of these kinds know (Created, Running, Restarting, Suspended, Succeeded, Failed) follow the rules of
`model/conditions.py`; reasons begin with the kind. Ours are always there, True or False, until the job ends.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Kinded, Reason, invalid_spec, of_kind
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.gang_roles import leader_of, size_of
from sterna.model.conditions import OURS, Conditions, ConditionType, Status, ended, is_true, said, with_condition
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase

_FOR_CHANGES = {
    ConditionType.RESIZING: ChangeKind.RESIZE,
    ConditionType.MIGRATING: ChangeKind.MIGRATION,
}
_MESSAGE_MAX = 1024


class News(NamedTuple):
    type: ConditionType
    true: bool
    reason: str
    message: str


def conditions_now(look: Look, now_s: float) -> Conditions:
    """The list after everything that can be said now."""
    conditions = look.view.status.conditions
    for news in (*_known(look, conditions), *_ours(look), *_ending(look.view, look.standing)):
        conditions = _told(look.view, conditions, news, now_s)
    return conditions


def refused_conditions(view: JobView, now_s: float) -> Conditions:
    """Of a job whose spec never made sense."""
    news = News(ConditionType.FAILED, True, invalid_spec(view.kind), view.problem)
    return _told(view, view.status.conditions, news, now_s)


def events_of(view: JobView, conditions: Conditions) -> tuple[JobEvent, ...]:
    """What is worth telling about what became true."""
    before = view.status.conditions
    fresh = [c for c in conditions if c.status is Status.TRUE and not is_true(before, c.type)]
    events = [
        JobEvent(_REASONS.get(found.type, found.reason), found.message, found.type in _BAD)
        for found in fresh
        if found.type in _TOLD
    ]
    if is_true(before, ConditionType.SUSPENDED) and not is_true(conditions, ConditionType.SUSPENDED):
        events.append(JobEvent(Reason.RESUMED, "its owner resumed it; it waits to be placed"))
    return tuple(events)


_BAD = frozenset({ConditionType.FAILED, ConditionType.RESTARTING})
_TOLD = frozenset(ConditionType) - {
    *(ConditionType.GANG_READY, ConditionType.RESIZING, ConditionType.MIGRATING),  # told when they are over, with costs
    ConditionType.PREEMPTED,
}
_REASONS = {ConditionType.ADMITTED: Reason.PLACED, ConditionType.SUSPENDED: Reason.SUSPENDED}


def _told(view: JobView, conditions: Conditions, news: News, now_s: float) -> Conditions:
    status = Status.TRUE if news.true else Status.FALSE
    message = news.message[:_MESSAGE_MAX]
    fresh = said(news.type, status, reason=news.reason, message=message, now_s=now_s, generation=view.generation)
    return with_condition(conditions, fresh)


def _known(look: Look, conditions: Conditions) -> Iterator[News]:
    view, standing = look.view, look.standing
    kind, name = view.kind, f"{view.kind} {view.id}"
    if not ended(conditions):
        yield News(ConditionType.CREATED, True, of_kind(kind, Kinded.CREATED), f"{name} is created.")
    if standing.finished:
        return
    if standing.phase is Phase.SUSPENDED:
        yield News(ConditionType.SUSPENDED, True, of_kind(kind, Kinded.SUSPENDED), f"{name} is suspended.")
        return
    if is_true(conditions, ConditionType.SUSPENDED):
        yield News(ConditionType.SUSPENDED, False, of_kind(kind, Kinded.RESUMED), f"{name} is resumed.")
    change = standing.change
    if change is not None and change.kind == ChangeKind.RESTART:
        message = f"{name} is restarting because {change.message}."
        yield News(ConditionType.RESTARTING, True, of_kind(kind, Kinded.RESTARTING), message)
    elif standing.seats and _trains(look):
        yield News(ConditionType.RUNNING, True, of_kind(kind, Kinded.RUNNING), f"{name} is running.")
    elif standing.phase is Phase.WAITING and is_true(conditions, ConditionType.RUNNING):
        yield News(ConditionType.RUNNING, False, standing.reason or "Waiting", standing.message)


def _ours(look: Look) -> Iterator[News]:
    standing, change = look.standing, look.standing.change
    if standing.finished:
        for kind in OURS:
            yield News(kind, False, standing.phase.value, "the job has ended")
        return
    waits = (standing.reason or "Waiting", standing.message or "it has not been placed yet")
    placed = _where(standing.assigned)
    yield (
        News(ConditionType.ADMITTED, True, "Placed", placed)
        if standing.seats
        else News(ConditionType.ADMITTED, False, *waits)
    )
    if look.all_ready:
        yield News(ConditionType.GANG_READY, True, "AllReady", "every pod it should hold is ready")
    else:
        missing = "not every pod is ready" if standing.seats else "it holds nothing"
        yield News(ConditionType.GANG_READY, False, "NotReady" if standing.seats else "NotPlaced", missing)
    for kind, kind_of_change in _FOR_CHANGES.items():
        if change is not None and change.kind == kind_of_change:
            yield News(
                kind,
                True,
                change.why or "Decided",
                f"{_where(change.before)} -> {_where(change.after)}: {change.message}",
            )
        else:
            yield News(kind, False, "NothingChanges", "")
    lost_it = _lost_everything(standing)
    yield News(ConditionType.PREEMPTED, lost_it, *(waits if lost_it else ("NotPreempted", "")))


def _ending(view: JobView, standing: Standing) -> Iterator[News]:
    if standing.phase is Phase.SUCCEEDED:
        yield News(ConditionType.SUCCEEDED, True, of_kind(view.kind, Kinded.SUCCEEDED), _ended(view, standing))
    elif standing.phase is Phase.FAILED:
        yield News(ConditionType.FAILED, True, of_kind(view.kind, Kinded.FAILED), _ended(view, standing))


def _ended(view: JobView, standing: Standing) -> str:
    word = "successfully completed" if standing.phase is Phase.SUCCEEDED else "failed"
    return f"{view.kind} {view.id} {word}: {standing.message}."


def _trains(look: Look) -> bool:
    """A job with a chief, master or launcher runs when that one does; any other when anybody of it does."""
    leader = leader_of(look.workload, look.standing.assigned)
    if leader is not None and leader[0] is not Role.WORKER:
        return leader in look.current and look.current[leader].runs
    return any(seen.runs for place, seen in look.current.items() if place[0] is Role.WORKER)


def _lost_everything(standing: Standing) -> bool:
    if standing.seats or standing.phase is not Phase.WAITING:
        return False
    latest = standing.change or (standing.history[-1] if standing.history else None)
    return latest is not None and latest.kind == ChangeKind.PREEMPTION


def _where(workers: tuple[Worker, ...]) -> str:
    if not workers:
        return "nothing"
    nodes = sorted({worker.node for worker in workers})
    shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else "")
    count = size_of(workers)
    return f"{count} worker{'s' if count != 1 else ''} on {shown}"
