"""All performance models by name, and the one way from rows of a trace to simulated jobs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sterna.engines.simulator.models.gavel import GavelOptions, gavel
from sterna.engines.simulator.models.generic import AmdahlOptions, LinearOptions, amdahl, fixed, linear
from sterna.engines.simulator.models.job_surroundings import as_told
from sterna.engines.simulator.models.pollux import PolluxOptions, SiaOptions, pollux, sia
from sterna.engines.simulator.models.row_specs import BuildJob, Sources
from sterna.engines.simulator.models.tables import TableOptions, afs, voda
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.errors import InvalidRequest
from sterna.model.nodes import Node
from sterna.model.trace import RowProblem, TraceRow
from sterna.policies.options import NoOptions, parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    name: str
    build: Callable[[Any, Sources], BuildJob]
    options: type[Any]
    summary: str  # one line, for lists
    needs_profiles: bool = False  # must a directory or file of measurements be given?
    by_rounds: bool = False  # jobs cannot say when they will finish, so the simulation must go in rounds


ENTRIES: tuple[ModelEntry, ...] = (
    ModelEntry(name="fixed", build=fixed, options=NoOptions, summary="rigid jobs that run for their duration"),
    ModelEntry(
        name="linear",
        build=linear,
        options=LinearOptions,
        summary="elastic jobs that go twice as fast with twice as many workers",
    ),
    ModelEntry(
        name="amdahl",
        build=amdahl,
        options=AmdahlOptions,
        summary="elastic jobs, a part of whose work no further worker speeds up",
    ),
    ModelEntry(
        name="afs",
        build=afs,
        options=TableOptions,
        summary="seconds per iteration by GPU count, as in AFS' simulator",
        needs_profiles=True,
    ),
    ModelEntry(
        name="voda",
        build=voda,
        options=TableOptions,
        summary="speed-ups and work of four models, measured on Voda's testbed",
    ),
    ModelEntry(
        name="gavel",
        build=gavel,
        options=GavelOptions,
        summary="throughputs by GPU type and placement, as in Gavel's and Shockwave's simulators",
        needs_profiles=True,
    ),
    ModelEntry(
        name="pollux",
        build=pollux,
        options=PolluxOptions,
        summary="goodput from measured profiles, placement by placement, as in Pollux' simulator",
        needs_profiles=True,
        by_rounds=True,
    ),
    ModelEntry(
        name="sia",
        build=sia,
        options=SiaOptions,
        summary="as pollux, with a profile for each GPU type",
        needs_profiles=True,
        by_rounds=True,
    ),
)

_BY_NAME = {entry.name: entry for entry in ENTRIES}

# What a trace is simulated with unless another model is named: the one its publisher used, as far as it needs no
# files, else the nearest that does not.
_BY_FORMAT = {
    "sterna": "amdahl",
    "afs": "afs",
    "pollux": "pollux",
    "gavel": "gavel",
    "shockwave": "gavel",
    "voda-testbed": "voda",
}


class MadeJobs(NamedTuple):
    jobs: list[SimulatedJob]  # in the order of the rows
    problems: tuple[RowProblem, ...]  # rows this model can do nothing with


def model_entry(name: str) -> ModelEntry:
    entry = _BY_NAME.get(name.strip().lower())
    if entry is None:
        raise InvalidRequest(field="model", value=name, expected="one of: " + ", ".join(_BY_NAME))
    return entry


def default_model(trace_format: str) -> str:
    """The name of the model that goes with a trace format."""
    return _BY_FORMAT.get(trace_format, "fixed")


def performance_model(
    name: str,
    *,
    profiles: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
    nodes: Iterable[Node] = (),
) -> BuildJob:
    """The model of this name: a function from a row to a simulated job. Nodes matter where GPU types do."""
    entry = model_entry(name)
    options = parse_options(entry.options, settings or {}, of=f"model {entry.name}")
    return entry.build(options, Sources(None if profiles is None else Path(profiles), tuple(nodes)))


def make_jobs(rows: Iterable[TraceRow], build: BuildJob) -> MadeJobs:
    """Simulated jobs, fresh for one run. Rows that the model cannot use are reported and left out."""
    jobs: list[SimulatedJob] = []
    problems: list[RowProblem] = []
    for row in rows:
        try:
            jobs.append(as_told(row, build(row)))
        except InvalidRequest as error:
            problems.append(RowProblem(row.line, error.field, str(error.value), error.expected))
    if problems and not jobs:
        first = problems[0]
        expected = f"{first.expected} (line {first.line}; no row of this trace suits the model)"
        raise InvalidRequest(field=first.field, value=first.value, expected=expected)
    return MadeJobs(jobs, tuple(problems))
