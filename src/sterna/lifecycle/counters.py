"""Counters that grow while a job holds workers: what it was served, how long it ran, since when. Pure functions.

Every engine keeps them as "exact at a moment" and brings them up to date only when what the job holds changes. An
engine that keeps a whole state asks `holding`; the simulator, which keeps `Job` values, asks for the parts of it.
"""

from typing import Any, Protocol

from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.resources import WHOLE_GPU_MILLI


class Served(Protocol):
    """A job's counters."""

    @property
    def gpu_s(self) -> float: ...

    @property
    def gpu_s_since_start(self) -> float: ...

    @property
    def ran_s(self) -> float: ...

    @property
    def first_started_s(self) -> float | None: ...

    @property
    def started_s(self) -> float | None: ...


class Counted(Served, Protocol):
    """A job's state as an engine keeps it."""

    @property
    def assigned(self) -> tuple[Worker, ...]: ...

    @property
    def as_of_s(self) -> float: ...

    @property
    def active_s(self) -> float | None: ...

    @property
    def seat_s(self) -> float | None: ...


def served(job: Served, rate: float, elapsed_s: float, now_s: float) -> dict[str, Any]:
    """The counters of now, after so many seconds of service at this rate."""
    service = rate * elapsed_s
    return {
        "as_of_s": now_s,
        "gpu_s": job.gpu_s + service,
        "gpu_s_since_start": job.gpu_s_since_start + service,
        "ran_s": job.ran_s + elapsed_s,
    }


def started(job: Served, now_s: float, *, seat_s: float | None) -> dict[str, Any]:
    """What changes about a job that goes from nothing to something.

    `seat_s` is when its run began, if it let go of everything only to come back: that run goes on. None: a new one
    begins, and what it is served in it is counted anew.
    """
    values: dict[str, Any] = {
        "waiting_since_s": None,
        "started_s": now_s if seat_s is None else seat_s,
        "first_started_s": now_s if job.first_started_s is None else job.first_started_s,
    }
    if seat_s is None:
        values["gpu_s_since_start"] = 0.0
    return values


def stopped(job: Served, now_s: float) -> dict[str, Any]:
    """What changes about a job that lets go of everything."""
    started_s = now_s if job.started_s is None else job.started_s
    return {"waiting_since_s": now_s, "started_s": None, "last_ran_s": now_s - started_s}


class CostOfStart(Protocol):
    """How far a job has come, as an engine keeps it."""

    @property
    def restart_s(self) -> float | None: ...


def restart_s(progress: CostOfStart | None) -> float:
    """What a start costs before progress is made, as far as this job ever showed it."""
    return 0.0 if progress is None else progress.restart_s or 0.0


def settled(state: Counted, spec: JobSpec, now_s: float) -> dict[str, Any]:
    """The counters, brought to now."""
    elapsed_s = max(0.0, now_s - state.as_of_s) if state.assigned else 0.0
    return served(state, service_rate(spec, state.assigned), elapsed_s, now_s)


def service_rate(spec: JobSpec, workers: tuple[Worker, ...]) -> float:
    size = sum(worker.role is Role.WORKER for worker in workers)
    milli = spec.request.gpu_milli
    return size * milli / WHOLE_GPU_MILLI if milli else float(size)


def suspended(state: Counted, spec: JobSpec, now_s: float) -> dict[str, Any]:
    """What changes about a job that its owner suspends: it holds nothing, waits for nothing, and its deadline stops."""
    values = holding(state, spec, (), now_s, restart_s=0.0, comes_back=False)
    return values | {"waiting_since_s": None, "seat_s": None, "active_s": None}


def holding(
    state: Counted,
    spec: JobSpec,
    workers: tuple[Worker, ...],
    now_s: float,
    *,
    restart_s: float,
    comes_back: bool,
) -> dict[str, Any]:
    """What changes about a job that holds exactly these from now on, beside what it holds.

    `restart_s` is what a start costs before progress is made. `comes_back`: it lets go of everything only to take up
    something else, so its time in the seat goes on counting.
    """
    values = settled(state, spec, now_s)
    if workers:
        values["resumes_s"] = now_s + restart_s
    if workers and not state.assigned:
        active_s = now_s if state.active_s is None else state.active_s
        values |= started(state, now_s, seat_s=state.seat_s) | {"seat_s": None, "active_s": active_s}
    elif state.assigned and not workers:
        values |= stopped(state, now_s) | {"seat_s": state.started_s if comes_back else None}
    return values
