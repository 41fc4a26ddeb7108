"""Transitions of a job that no decision causes: it ends, starts again, is suspended or resumed by its owner. Pure."""

from dataclasses import replace

from sterna.engines.kubernetes.reconcile import changes
from sterna.engines.kubernetes.reconcile.pod_ends import Restart
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.engines.kubernetes.status.standing import Past, Standing
from sterna.lifecycle import transitions
from sterna.lifecycle.changes import ENDED_FIRST, Cost, event_reason, in_words
from sterna.lifecycle.growth_news import growth_in_words, is_news
from sterna.lifecycle.outcome import Finish
from sterna.model.jobs import JobSpec
from sterna.model.phases import Phase


def finished(look: Look, found: Finish, now_s: float) -> Standing:
    """The job is over, and holds nothing."""
    standing = changes.closed(look.standing, changes.FAILED, now_s=now_s, message=ENDED_FIRST)
    return replace(standing, **transitions.finished(standing, _spec(look), found, now_s), numbers=(), seats=())


def restarted(look: Look, found: Restart, now_s: float) -> Standing:
    """Pods come back: those that ended, or the whole gang in the same places."""
    standing = changes.restart_opened(look.standing, why=found.reason, message=found.message, now_s=now_s)
    values = transitions.tried_again(standing, found.counted, now_s, whole=found.whole)
    if found.whole:
        values |= {"incarnation": standing.incarnation + 1, "done": ()}
    return replace(standing, **values)


def with_suspension(look: Look, now_s: float) -> Standing:
    """What the owner wants: a job that is suspended holds nothing and asks for nothing."""
    standing, wanted = look.standing, look.workload.run_policy.suspend
    if wanted and standing.phase is not Phase.SUSPENDED:
        standing = changes.closed(standing, changes.FAILED, now_s=now_s, message=transitions.BY_OWNER)
        values = transitions.suspended(standing, _spec(look), now_s)
        return replace(standing, **values, numbers=(), seats=())
    if not wanted and standing.phase is Phase.SUSPENDED:
        return replace(standing, **transitions.resumed(standing, now_s))
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
    words = growth_in_words(growth, before=before.growth, metric=now.metric)
    return (JobEvent(Reason(growth.category.value), words),)


def _told(past: Past) -> JobEvent:
    cost = Cost(downtime_s=past.downtime_s, committed_step=past.committed_step)
    told = in_words(past.kind, past.before, past.after, past.message, cost)
    return JobEvent(event_reason(past.kind, past.before, past.after), told)


def _spec(look: Look) -> JobSpec:
    spec = look.view.spec
    assert spec is not None  # a look is only taken at jobs that have one
    return spec
