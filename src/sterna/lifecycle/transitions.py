"""Turns in a job's life, as the values that change about it: decided, ended, failed, suspended, resumed. Pure.

Each answers what an engine writes down beside what the job holds. Losses are `lost_seats.py`.
"""

from typing import Any

from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.counters import holding, restart_s, settled
from sterna.lifecycle.counters import suspended as let_go
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.job_state import JobState, OpenChange
from sterna.lifecycle.outcome import Finish, TryAgain
from sterna.model.jobs import JobSpec, Worker
from sterna.model.phases import Phase, Trigger, after
from sterna.model.why import Because
from sterna.planner.steps import WHY_IT_HAS

Workers = tuple[Worker, ...]

BY_OWNER = "its owner suspended it"


def decided(
    state: JobState,
    spec: JobSpec,
    workers: Workers,
    next_: Workers,
    because: Because,
    now_s: float,
    *,
    change: OpenChange | None = None,
) -> dict[str, Any]:
    """The core has the job hold `workers` from now on, and `next_` once there is room for it.

    `change` is the one that is open so far. Where the job comes back as that change meant it to, the reason is still
    why it changes: that there is room for it says nothing of that.
    """
    values = holding(state, spec, workers, now_s, restart_s=restart_s(state.progress), comes_back=bool(next_))
    phase = phase_decided(state.phase, before=state.assigned, now=workers, next_=next_)
    if change is not None and because.why in WHY_IT_HAS and _comes_back(state, change, workers):
        return values | {"phase": phase, "reason": change.why, "message": change.message}
    return values | {"phase": phase, "reason": str(because.why), "message": because.sentence}


def _comes_back(state: JobState, change: OpenChange, workers: Workers) -> bool:
    """Did it let go of everything for this change, and is this what the change was to lead to?"""
    left = state.phase is Phase.RESIZING and not state.assigned
    decided_so = change.kind in (ChangeKind.RESIZE, ChangeKind.MIGRATION)
    return left and decided_so and bool(workers) and size_of(workers) == size_of(change.after)


def phase_decided(phase: Phase, *, before: Workers, now: Workers, next_: Workers) -> Phase:
    """Of a job that held `before`, is to hold `now`, and `next_` once there is room for it."""
    if not next_:
        return after(phase, Trigger.PREEMPTED) if phase is not Phase.WAITING else phase
    if phase is Phase.WAITING:
        return after(phase, Trigger.STARTED) if now else phase
    if not before and phase is Phase.RESIZING:
        return phase
    return after(phase, Trigger.RESIZED)


def given_up(state: JobState, because: Because) -> dict[str, Any]:
    """The job let go of everything in order to come back, and now it does not: it is preempted, and its time in the
    seat is over.
    """
    phase = after(state.phase, Trigger.PREEMPTED)
    return {"phase": phase, "seat_s": None, "reason": str(because.why), "message": because.sentence}


def finished(state: JobState, spec: JobSpec, found: Finish, now_s: float) -> dict[str, Any]:
    """The job is over, and holds nothing."""
    return {
        **settled(state, spec, now_s),
        "phase": found.phase,
        "reason": found.reason,
        "message": found.message,
        "waiting_since_s": None,
        "started_s": None,
        "seat_s": None,
        "retry_s": None,
        "finished_s": now_s,
    }


def tried_again(state: JobState, counted: TryAgain | None, now_s: float, *, whole: bool) -> dict[str, Any]:
    """Workers come back that ended; `whole`: and all others with them.

    `counted` is what this failure counts for against `backoffLimit`. None: it was no failure.
    """
    values: dict[str, Any] = {"restarts": state.restarts + 1}
    if whole and state.phase is Phase.RUNNING:
        values["phase"] = after(state.phase, Trigger.RESIZED)
    if counted is not None:
        values |= {"failures": counted.failures, "failed_s": now_s, "retry_s": now_s + counted.after_s}
    return values


def suspended(state: JobState, spec: JobSpec, now_s: float) -> dict[str, Any]:
    """By its owner: the job holds nothing, and asks for nothing."""
    return {
        **let_go(state, spec, now_s),
        "phase": after(state.phase, Trigger.SUSPENDED),
        "reason": "Suspended",
        "message": BY_OWNER,
        "retry_s": None,
    }


def resumed(state: JobState, now_s: float) -> dict[str, Any]:
    """By its owner: the job waits from now on."""
    phase = after(state.phase, Trigger.RESUMED)
    return {"phase": phase, "reason": "", "message": "", "waiting_since_s": now_s, "as_of_s": now_s}
