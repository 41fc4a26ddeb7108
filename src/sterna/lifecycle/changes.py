"""Changes of a job as its history shows them: which kind one is, what is counted about it, and how it is told. Pure.

A change is open from the decision or loss that caused it until training goes on, or until everything is gone where
nothing comes after it. A job has one at a time; what is decided on top of it goes on with it. How far a change has come
is seen by the engine, which also keeps it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from sterna.lifecycle.gang_roles import Place, size_of
from sterna.lifecycle.job_state import JobState, OpenChange
from sterna.model.jobs import Disruption, Worker

Workers = tuple[Worker, ...]

ENDED_FIRST = "the job ended first"  # of a change that is closed because its job is over
_DISRUPTIONS_KEPT = 32


class ChangeKind(StrEnum):
    RESIZE = "resize"
    MIGRATION = "migration"
    PREEMPTION = "preemption"
    RESTART = "restart"  # it was not decided: something ended or was lost that should not have


class Cost(NamedTuple):
    """What a change cost, as far as it is known; None: it is not."""

    downtime_s: float | None = None
    committed_step: int | None = None
    steps_lost: int | None = None
    warm: bool | None = None  # was the new gang started beside the old one? None: nothing was started
    expected: tuple[str, float] | None = None  # the rebalancer that proposed it, and the seconds that it hoped to save


def kind_of(before: Workers, after: Workers) -> ChangeKind:
    if not after:
        return ChangeKind.PREEMPTION
    return ChangeKind.MIGRATION if size_of(before) == size_of(after) else ChangeKind.RESIZE


def kind_going_on(kind: str, first: Workers, to: Workers) -> ChangeKind:
    """Of an open change that is to lead to `to` from now on; `first` is what the job held when it was opened."""
    return ChangeKind.RESTART if kind == ChangeKind.RESTART and to else kind_of(first, to)


def kind_given_up(kind: str) -> ChangeKind | None:
    """Of an open change when what was to come does not come, and the job waits. None: it has failed and is over.

    A decision that took everything and brings nothing is a preemption. A restart was no decision, so it does not become
    one; and it must not stay open while the job waits, or the wait would count as what the restart cost.
    """
    return None if kind == ChangeKind.RESTART else ChangeKind.PREEMPTION


def has_moved(change: OpenChange, place: Place) -> bool:
    """Is this worker moved by the change, open or over, from one node to another?"""
    before = {worker.node for worker in change.before if worker[:2] == place}
    after = {worker.node for worker in change.after if worker[:2] == place}
    return change.kind == ChangeKind.MIGRATION and bool(before and after) and before != after


def counted(state: JobState, kind: str) -> dict[str, Any]:
    """What changes about a job's counters when a change has succeeded."""
    return {
        "resizes": state.resizes + (kind == ChangeKind.RESIZE),
        "migrations": state.migrations + (kind == ChangeKind.MIGRATION),
    }


def disruptions_with(
    known: tuple[Disruption, ...], kind: str, now_s: float, downtime_s: float | None
) -> tuple[Disruption, ...]:
    """What budgets and cool-downs are counted from: changes that the scheduler decided, and so no restarts."""
    if kind == ChangeKind.RESTART:
        return known
    return (*known, Disruption(now_s, kind, downtime_s or 0.0))[-_DISRUPTIONS_KEPT:]


def event_reason(kind: str, before: Workers, after: Workers) -> str:
    """By which owners are told that a change has succeeded."""
    if kind == ChangeKind.RESIZE:
        return "ScaledUp" if size_of(after) > size_of(before) else "ScaledDown"
    return _REASONS.get(kind, "Restarted")


_REASONS: Mapping[str, str] = {ChangeKind.MIGRATION: "Migrated", ChangeKind.PREEMPTION: "Preempted"}


def in_words(kind: str, before: Workers, after: Workers, message: str, cost: Cost) -> str:
    """What a change was, why, and what it cost."""
    match kind:
        case ChangeKind.RESIZE:
            what = f"from {size_of(before)} to {size_of(after)} workers"
        case ChangeKind.MIGRATION:
            what = f"from {_nodes(before)} to {_nodes(after)}"
        case ChangeKind.PREEMPTION:
            what = f"let go of {size_of(before)} workers"
        case _:
            what = f"{size_of(after)} workers run again"
    costs = _costs(cost)
    return f"{what}: {message}" + (f" ({', '.join(costs)})" if costs else "")


def _costs(cost: Cost) -> list[str]:
    told = []
    if cost.downtime_s is not None:
        how = "" if cost.warm is None else "warm, " if cost.warm else "cold, "
        told.append(f"{how}training stood still for {cost.downtime_s:.1f} s")
    if cost.committed_step is not None:
        told.append(f"committed at step {cost.committed_step}")
    if cost.steps_lost is not None:
        told.append(f"{cost.steps_lost} steps lost")
    if cost.expected is not None:
        told.append(f"{cost.expected[0]} expects to save {cost.expected[1]:.1f} s")
    return told


def _nodes(workers: Workers) -> str:
    return ", ".join(sorted({worker.node for worker in workers})) or "nowhere"
