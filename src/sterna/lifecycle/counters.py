"""Counters that grow while a job holds workers: what it was served, how long it ran, since when. Pure functions.

Every engine keeps them as "exact at a moment" and brings them up to date only when what the job holds changes.
"""

from typing import Any, Protocol

from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.resources import WHOLE_GPU_MILLI


class Counted(Protocol):
    """A job's state as an engine keeps it."""

    @property
    def assigned(self) -> tuple[Worker, ...]: ...

    @property
    def as_of_s(self) -> float: ...

    @property
    def gpu_s(self) -> float: ...

    @property
    def gpu_s_since_start(self) -> float: ...

    @property
    def ran_s(self) -> float: ...

    @property
    def first_started_s(self) -> float | None: ...

    @property
    def active_s(self) -> float | None: ...

    @property
    def started_s(self) -> float | None: ...

    @property
    def seat_s(self) -> float | None: ...


def settled(state: Counted, spec: JobSpec, now_s: float) -> dict[str, Any]:
    """The counters, brought to now."""
    elapsed_s = max(0.0, now_s - state.as_of_s) if state.assigned else 0.0
    served = service_rate(spec, state.assigned) * elapsed_s
    return {
        "as_of_s": now_s,
        "gpu_s": state.gpu_s + served,
        "gpu_s_since_start": state.gpu_s_since_start + served,
        "ran_s": state.ran_s + elapsed_s,
    }


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
        goes_on = state.seat_s is not None
        values |= {
            "waiting_since_s": None,
            "started_s": state.seat_s if goes_on else now_s,
            "seat_s": None,
            "first_started_s": now_s if state.first_started_s is None else state.first_started_s,
            "active_s": now_s if state.active_s is None else state.active_s,
        }
        if not goes_on:
            values["gpu_s_since_start"] = 0.0
    elif state.assigned and not workers:
        values |= {
            "waiting_since_s": now_s,
            "started_s": None,
            "seat_s": state.started_s if comes_back else None,
            "last_ran_s": now_s - (state.started_s if state.started_s is not None else now_s),
        }
    return values
