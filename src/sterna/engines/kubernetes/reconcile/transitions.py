"""Turns in a job's life that nobody decided: it ends, starts again, is suspended or resumed by its owner. Pure."""

from dataclasses import replace
from typing import Any

from sterna.engines.kubernetes.reconcile import changes
from sterna.engines.kubernetes.reconcile.pod_ends import Restart
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.engines.kubernetes.status.standing import Past, Standing
from sterna.lifecycle import counters
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.growth import growth_in_words, is_news
from sterna.lifecycle.outcome import Finish
from sterna.model.jobs import JobSpec, Worker
from sterna.model.phases import Phase, Trigger, after


def finished(look: Look, found: Finish, now_s: float) -> Standing:
    """The job is over, and holds nothing."""
    standing, spec = look.standing, _spec(look)
    standing = changes.closed(standing, changes.FAILED, now_s=now_s, message="the job ended first")
    return replace(
        standing,
        **counters.settled(standing, spec, now_s),
        phase=found.phase,
        reason=found.reason,
        message=found.message,
        numbers=(),
        seats=(),
        waiting_since_s=None,
        started_s=None,
        seat_s=None,
        retry_s=None,
        finished_s=now_s,
    )


def restarted(look: Look, found: Restart, now_s: float) -> Standing:
    """Pods come back: those that ended, or the whole gang in the same places."""
    standing = changes.restart_opened(look.standing, why=found.reason, message=found.message, now_s=now_s)
    values: dict[str, Any] = {"restarts": standing.restarts + 1}
    if found.whole:
        values |= {"incarnation": standing.incarnation + 1, "done": ()}
        if standing.phase is Phase.RUNNING:
            values["phase"] = after(standing.phase, Trigger.RESIZED)
    if found.counted is not None:
        failures, after_s = found.counted
        values |= {"failures": failures, "failed_s": now_s, "retry_s": now_s + after_s}
    return replace(standing, **values)


def with_suspension(look: Look, now_s: float) -> Standing:
    """What the owner wants: a job that is suspended holds nothing and asks for nothing."""
    standing, wanted = look.standing, look.workload.run_policy.suspend
    if wanted and standing.phase is not Phase.SUSPENDED:
        message = "its owner suspended it"
        standing = changes.closed(standing, changes.FAILED, now_s=now_s, message=message)
        return replace(
            standing,
            **counters.suspended(standing, _spec(look), now_s),
            phase=after(standing.phase, Trigger.SUSPENDED),
            reason="Suspended",
            message=message,
            numbers=(),
            seats=(),
            retry_s=None,
            change=None,
        )
    if not wanted and standing.phase is Phase.SUSPENDED:
        phase = after(standing.phase, Trigger.RESUMED)
        return replace(standing, phase=phase, reason="", message="", waiting_since_s=now_s, as_of_s=now_s)
    return standing


def told_of_past(before: Standing, now: Standing) -> tuple[JobEvent, ...]:
    """Changes that were closed since `before`, in words."""
    fresh = [past for past in now.history if past not in before.history]
    return tuple(_told(past) for past in fresh if past.result == changes.SUCCEEDED)


def told_of_growth(before: Standing, now: Standing) -> tuple[JobEvent, ...]:
    """Another category than before, in words."""
    growth = now.growth
    if growth is None or not is_news(before.growth, growth):
        return ()
    return (JobEvent(Reason(growth.category.value), growth_in_words(growth, before=before.growth)),)


def _told(past: Past) -> JobEvent:
    cost = [f"training stood still for {past.downtime_s:.1f} s"] if past.downtime_s is not None else []
    if past.committed_step is not None:
        cost.append(f"committed at step {past.committed_step}")
    why = f": {past.message}" + (f" ({', '.join(cost)})" if cost else "")
    before, now = size_of(past.before), size_of(past.after)
    match past.kind:
        case changes.RESIZE:
            reason = Reason.SCALED_UP if now > before else Reason.SCALED_DOWN
            return JobEvent(reason, f"from {before} to {now} workers{why}")
        case changes.MIGRATION:
            return JobEvent(Reason.MIGRATED, f"from {_nodes(past.before)} to {_nodes(past.after)}{why}")
        case changes.PREEMPTION:
            return JobEvent(Reason.PREEMPTED, f"let go of {before} workers{why}")
        case _:
            return JobEvent(Reason.RESTARTED, f"{now} workers run again{why}")


def _nodes(workers: tuple[Worker, ...]) -> str:
    return ", ".join(sorted({worker.node for worker in workers})) or "nowhere"


def _spec(look: Look) -> JobSpec:
    spec = look.view.spec
    assert spec is not None  # a look is only taken at jobs that have one
    return spec
