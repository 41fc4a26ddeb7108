"""The record of a job that every interface shows: plain data with camelCase keys, the same in every engine. Pure.

An engine gathers the facts; what it cannot tell (a process id, the path of a log) is None. How moments are written is
passed in, since a calendar is no part of the core.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, Protocol

from sterna.lifecycle.counters import settled
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.job_value import Costs, TrainingFacts, ValuedState
from sterna.model.growth import Growth
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

Record = dict[str, Any]
Moment = Callable[[float | None], str | None]  # as text, for people and programs


class Reached(Costs, Protocol):
    """How far a job has come, as an engine keeps it."""

    @property
    def step(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class RecordedState(ValuedState, Protocol):
    """A job's state as an engine keeps it, with what only people want to know."""

    @property
    def finished_s(self) -> float | None: ...

    @property
    def steps_lost(self) -> int: ...

    @property
    def incarnation(self) -> int: ...

    @property
    def progress(self) -> Reached | None: ...


class Evaluated(NamedTuple):
    """How a job's evaluation value grows. None: this engine does not keep it."""

    growth: Growth
    metric: str | None = None
    value: float | None = None
    evaluations: int | None = None


class Checkpoint(NamedTuple):
    """The latest one that is known to be whole."""

    step: int
    bytes: int | None  # None: not known, as with the next
    save_s: float | None
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What an engine knows of a job."""

    name: str
    namespace: str
    uid: str
    kind: str
    submitted_s: float
    phase: Phase
    reason: str
    message: str
    spec: JobSpec | None  # None: what its owner wrote makes no sense
    state: RecordedState
    labels: Mapping[str, str] = field(default_factory=dict)
    training: TrainingFacts | None = None  # None: it did not tell anything yet
    value: Job | None = None  # as the core sees it. None: it does not, or nothing is known of the job's speed
    metrics: Mapping[str, float] = field(default_factory=dict)
    evaluated: Evaluated | None = None  # None: no evaluation was told
    checkpoint: Checkpoint | None = None  # None: none is known
    conditions: Sequence[Record] = ()


def job_record(facts: RecordFacts, *, now_s: float, policy: str, moment: Moment) -> Record:
    """The job as tables, `describe`, the page and scripts show it."""
    spec, state, reached = facts.spec, facts.state, facts.state.progress
    until_s = now_s if state.finished_s is None else state.finished_s
    ran_s = state.ran_s if spec is None else settled(state, spec, now_s)["ran_s"]
    total_s = max(0.0, until_s - facts.submitted_s)
    size = size_of(state.assigned)
    low, high, step = (0, 0, 1) if spec is None else (spec.workers_min, spec.workers_max, spec.workers_step)
    return {
        "name": facts.name,
        "namespace": facts.namespace,
        "id": f"{facts.namespace}/{facts.name}",
        "uid": facts.uid,
        "kind": facts.kind,
        "labels": dict(facts.labels),
        "phase": facts.phase.value,
        "reason": facts.reason,
        "message": facts.message,
        "workers": {"current": size, "min": low, "max": high, "step": step},
        "gpus": 0 if spec is None else gpus_of(spec.request.times(size)),
        "nodes": nodes_of(state.assigned),
        "policy": policy,
        "priority": 0 if spec is None else spec.priority,
        "submittedAt": moment(facts.submitted_s),
        "startedAt": moment(state.first_started_s),
        "finishedAt": moment(state.finished_s),
        "waitingSeconds": max(0.0, total_s - ran_s),
        "runningSeconds": ran_s,
        "totalSeconds": total_s,
        "progress": _share_done(facts.training),
        "step": None if reached is None else reached.step,
        "epoch": None if reached is None else reached.epoch,
        "metrics": {name: value if isfinite(value) else str(value) for name, value in facts.metrics.items()},
        "growth": _growth(facts.evaluated, moment),
        "restarts": state.restarts,
        "resizes": state.resizes,
        "migrations": state.migrations,
        "stepsLost": state.steps_lost,
        "incarnation": state.incarnation,
        "checkpoint": _checkpoint(facts.checkpoint, moment),
        "remainingSeconds": _remaining_s(facts.value, now_s),
        "conditions": list(facts.conditions),
    }


def condition_record(
    type_: str, status: str, *, reason: str, message: str, updated: str | None, changed: str | None, generation: int
) -> Record:
    """One condition; `updated` and `changed` are moments as text."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": updated,
        "lastTransitionTime": changed,
        "observedGeneration": generation,
    }


def worker_record(
    name: str,
    role: Role | None,
    ordinal: int | None,
    *,
    rank: int | None,
    node: str | None,
    devices: Iterable[str],
    incarnation: int,
    phase: str,
    started: str | None,
    exit_code: int | None,
    ended: str | None,
    pid: int | None = None,
    standby: bool = False,
    log: str | None = None,
) -> Record:
    """One worker of a job. `started` is a moment as text; `ended` says how it ended, None: it did not."""
    return {
        "name": name,
        "role": None if role is None else role.value,
        "ordinal": ordinal,
        "rank": rank,
        "node": node,
        "devices": list(devices),
        "pid": pid,
        "incarnation": incarnation,
        "phase": phase,
        "standby": standby,
        "startedAt": started,
        "exitCode": exit_code,
        "exit": ended,
        "log": log,
    }


def nodes_of(workers: Iterable[Worker]) -> list[str]:
    """Where these are, each node once, by name."""
    return sorted({worker.node for worker in workers})


def gpus_of(amount: Resources) -> int | float:
    """A share of a card is a fraction; whole cards are counted."""
    whole, rest = divmod(amount.gpu_milli, WHOLE_GPU_MILLI)
    return whole if not rest else amount.gpu_milli / WHOLE_GPU_MILLI


def _share_done(training: TrainingFacts | None) -> float | None:
    total = None if training is None else training.work_total
    return None if training is None or not total else min(1.0, training.units_done / total)


def _remaining_s(value: Job | None, now_s: float) -> float | None:
    left_s = None if value is None else value.remaining_s(value.size, now_s)
    return left_s if left_s is not None and isfinite(left_s) else None


def _growth(seen: Evaluated | None, moment: Moment) -> Record | None:
    if seen is None:
        return None
    return {
        "category": seen.growth.category.value,
        "since": moment(seen.growth.since_s or None),
        "metric": seen.metric,
        "value": seen.value,
        "score": seen.growth.score,
        "efficiency": seen.growth.efficiency,
        "evaluations": seen.evaluations,
    }


def _checkpoint(made: Checkpoint | None, moment: Moment) -> Record | None:
    if made is None:
        return None
    return {"step": made.step, "bytes": made.bytes, "saveSeconds": made.save_s, "at": moment(made.at_s)}
