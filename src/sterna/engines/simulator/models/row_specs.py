"""What all performance models do alike with a row of a trace: bounds on its size, and its specification."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sterna.engines.simulator.training import SimulatedJob
from sterna.model.errors import InvalidRequest
from sterna.model.jobs import FixedRole, JobSpec, Role
from sterna.model.nodes import Node
from sterna.model.resources import Resources
from sterna.model.trace import TraceRow

BuildJob = Callable[[TraceRow], SimulatedJob]

SIZING_DOC = "request: jobs stay at what was asked for; model: they may take any size the model (or the trace) allows"


class Sizing(StrEnum):
    REQUEST = "request"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Sources:
    """What a model may look at beside its options."""

    profiles: Path | None = None  # a directory or file of measurements. None: not given
    nodes: tuple[Node, ...] = ()  # so that a model knows GPU types by node

    def require_profiles(self, *, what: str) -> Path:
        if self.profiles is None or not self.profiles.exists():
            given = "none" if self.profiles is None else str(self.profiles)
            raise InvalidRequest(field="profiles", value=given, expected=what)
        return self.profiles


def spec_of(row: TraceRow, *, workers_min: int, workers_max: int) -> JobSpec:
    """The job of this row with these bounds; it starts as near to what was asked for as they let it."""
    request = Resources(row.cpu_milli, row.memory_bytes, row.gpu_milli)
    limit = Resources(row.cpu_limit_milli, row.memory_limit_bytes)
    return JobSpec(
        id=row.id,
        submitted_s=row.submitted_s,
        request=request,
        workers_min=workers_min,
        workers_max=workers_max,
        workers_initial=min(max(row.workers, workers_min), workers_max),
        accelerator=row.accelerator,
        category=row.category,
        priority=row.priority,
        fixed=(FixedRole(Role.PS, row.servers, request, limit),) if row.servers else (),
        node_preference=row.node,
        limit=limit,
    )


def known(value: float | None, *, field: str, model: str) -> float:
    """A number the model cannot do without."""
    if value is None:
        raise InvalidRequest(field=field, value="", expected=f"a number: the model {model} cannot do without it")
    return value
