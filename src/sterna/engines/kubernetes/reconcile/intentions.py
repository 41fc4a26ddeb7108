"""What the core decided, taken up into how a job stands. Pure; pods follow when `reconcile` looks at the result.

standing = shrunk(view, action, growth, now_s)
done = reconcile(view.but(standing), now_s, options)
"""

from dataclasses import replace
from typing import Any

from sterna.engines.kubernetes.reconcile import changes
from sterna.engines.kubernetes.reconcile.job_seats import seats_for
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle import transitions
from sterna.lifecycle.changes import kind_given_up
from sterna.lifecycle.gang_roles import carriers
from sterna.model.errors import InvariantBroken
from sterna.model.jobs import JobSpec, Worker
from sterna.model.phases import Phase
from sterna.model.plan import Grow, Shrink
from sterna.model.why import Because
from sterna.model.workload import Workload

Workers = tuple[Worker, ...]


def takes_part(view: JobView) -> bool:
    """May the core decide about this job? Not if it ended, is suspended, deleted, held back or another controller's."""
    workload, standing = view.workload, view.standing
    if workload is None or view.deleting or is_others(view) or standing.finished or view.is_held_back:
        return False
    return standing.enqueued_s is not None and not workload.run_policy.suspend and standing.phase is not Phase.SUSPENDED


def is_others(view: JobView) -> bool:
    """Does another controller manage it?"""
    return view.managed_by is not None or (
        view.workload is not None and view.workload.run_policy.managed_by is not None
    )


def shrunk(view: JobView, action: Shrink, growth: Grow | None, now_s: float, *, migration: str = "") -> Standing:
    """The job lets go of what is not in `action.to`. `growth`: what the same decision has for it afterwards.

    The standing as it is (the same object) if there is nothing to let go of. Only where `takes_part`.
    """
    standing = view.standing
    kept = tuple(worker for worker in standing.assigned if worker in action.to)
    if len(kept) == len(standing.assigned):
        return standing
    next_ = action.to if growth is None else growth.to
    return _holding(view, kept, next_, action.because, now_s, migration)


def grown(view: JobView, action: Grow, now_s: float, *, migration: str = "") -> Standing | None:
    """The job holds exactly `action.to`. None: stale, it holds something else by now. The same object: it does."""
    standing, (_, spec) = view.standing, _read(view)
    held = standing.assigned
    if held == action.to:
        return standing
    restarts = bool(held) and spec.restarts_on_resize  # no worker survives: it must have let go of everything first
    if not takes_part(view) or not set(held) <= set(action.to) or restarts:
        return None
    return _holding(view, action.to, action.to, action.because, now_s, migration)


def given_up(view: JobView, because: Because, now_s: float) -> Standing:
    """It let go of something to hold something else, and now that does not come: call it for jobs that are Resizing and
    that a decision leaves as they are, be it with nothing. The same object if nothing more was to come.
    """
    standing, change = view.standing, view.standing.change
    if standing.phase is not Phase.RESIZING:
        return standing
    if standing.seats:
        if change is None or set(change.after) == set(standing.assigned):
            return standing
        return changes.opened(
            standing, before=(), to=standing.assigned, why=change.why, message=change.message, now_s=now_s
        )
    if change is not None and (kind := kind_given_up(change.kind)) is not None:
        change = change._replace(kind=kind, after=())
    elif change is not None:
        standing = changes.closed(standing, changes.FAILED, now_s=now_s, message=because.sentence)
        change = None
    values = transitions.given_up(standing, because)
    return replace(standing, **values, numbers=tuple(because.numbers), change=change)


def decided_by(view: JobView, standing: Standing, decision_id: str) -> Standing:
    """With the decision that it comes from, by the id that logs and the journal know it by; events tell it. The same
    object if the decision changes nothing.
    """
    return standing if standing is view.standing else replace(standing, decision=decision_id)


def explained(view: JobView, because: Because) -> Standing:
    """A job that waits is told why. The same object if it is told so already."""
    standing, told = view.standing, _reason(because)
    if standing.phase is not Phase.WAITING or standing.seats:
        return standing
    denial = standing.denial
    if denial is not None and denial.in_force and not denial.size:
        return standing  # it asks for nothing, and was told why when it gave its seats back
    # An API server puts the keys of a map into an order of its own.
    same = (standing.reason, dict(standing.numbers)) == (told["reason"], dict(told["numbers"]))
    return standing if same else replace(standing, **told)


def held_back(view: JobView, now_s: float) -> Standing:
    """A job that may not be started waits, and says why. The same object if it does."""
    because = view.hold.because
    if because is None or not view.is_held_back or view.standing.phase is Phase.SUSPENDED:
        return view.standing
    return explained(view.but(given_up(view, because, now_s)), because)


def _holding(
    view: JobView, workers: Workers, next_: Workers, because: Because, now_s: float, migration: str
) -> Standing:
    """From now on the job is to hold `workers`, and `next_` once there is room for it."""
    standing, (workload, spec) = view.standing, _read(view)
    before = standing.assigned
    anew = not before or _loses_carrier(workload, before, workers)
    values = transitions.decided(standing, spec, workers, next_, because, now_s, change=standing.change)
    numbers = tuple(because.numbers) if values["reason"] == str(because.why) else standing.numbers
    standing = changes.opened(
        standing,
        before=before,
        to=next_,
        why=str(because.why),
        message=because.sentence,
        now_s=now_s,
        migration=migration,
    )
    if anew and workers:
        values |= {"incarnation": standing.incarnation + 1, "done": ()}
    return replace(
        standing,
        **values,
        numbers=numbers,
        seats=seats_for(standing, workers, uid=view.uid, now_s=now_s),
    )


def _loses_carrier(workload: Workload, before: Workers, now: Workers) -> bool:
    """Does a worker go, or move, without which the others cannot train on?"""
    needed = carriers(workload, before)
    return any(worker[:2] in needed and worker not in now for worker in before)


def _reason(because: Because) -> dict[str, Any]:
    return {"reason": str(because.why), "message": because.sentence, "numbers": tuple(because.numbers)}


def _read(view: JobView) -> tuple[Workload, JobSpec]:
    if view.workload is None or view.spec is None:
        raise InvariantBroken(f"job {view.id} has no spec that makes sense, and is to be changed")
    return view.workload, view.spec
