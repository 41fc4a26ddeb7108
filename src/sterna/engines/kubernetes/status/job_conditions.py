"""What a job's conditions say, from its standing and its pods, and what of it is worth an event. Pure.

Which condition is true when is every engine's rule (`lifecycle/condition_rules.py`).
"""

from sterna.engines.kubernetes.reconcile.denied_seats import keeps_from_training
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.lifecycle import condition_rules as rules
from sterna.model.conditions import Conditions, ConditionType, Status, is_true


def conditions_now(look: Look, now_s: float) -> Conditions:
    """The list after everything that can be said now."""
    view, standing = look.view, look.standing
    latest = standing.change or (standing.history[-1] if standing.history else None)
    running = [place for place, seen in look.current.items() if seen.runs]
    facts = rules.Facts(
        kind=view.kind,
        job_id=view.id,
        generation=view.generation,
        phase=standing.phase,
        reason=standing.reason,
        message=standing.message,
        held=standing.assigned,
        change=standing.change,
        latest=latest.kind if latest is not None else "",
        trains=rules.trains(look.workload, standing.assigned, running),
        all_ready=look.all_ready,
        kept_out=standing.denial.because if standing.denial is not None and keeps_from_training(look) else None,
        problem=view.problem,
        unhonoured=view.unhonoured,
    )
    return rules.conditions_now(view.status.conditions, facts, now_s)


def refused_conditions(view: JobView, now_s: float) -> Conditions:
    """Of a job whose spec never made sense."""
    news = rules.News(ConditionType.FAILED, True, rules.invalid_spec(view.kind), view.problem)
    return rules.told(view.status.conditions, news, generation=view.generation, now_s=now_s)


def ignored_conditions(view: JobView, now_s: float) -> Conditions:
    """Of a job whose spec makes no sense, and of which no other is known."""
    news = rules.edit_ignored(view.kind, view.problem)
    return rules.told(view.status.conditions, news, generation=view.generation, now_s=now_s)


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


_BAD = frozenset({ConditionType.FAILED, ConditionType.RESTARTING, ConditionType.FIELDS_NOT_HONOURED})
_TOLD = frozenset(ConditionType) - {
    *(ConditionType.GANG_READY, ConditionType.RESIZING, ConditionType.MIGRATING),  # told when they are over, with costs
    ConditionType.PREEMPTED,
    ConditionType.EDIT_IGNORED,  # told with what becomes of the job
}
_REASONS = {ConditionType.ADMITTED: Reason.PLACED, ConditionType.SUSPENDED: Reason.SUSPENDED}
