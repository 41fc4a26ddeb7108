"""The jobs of a simulation: rows of a trace that is read or made up, and how a performance model trains them."""

from dataclasses import fields
from typing import NamedTuple

from sterna.compose.simulation_requests import ClusterRequest, ModelRequest, TraceRequest
from sterna.engines.simulator.generate import Pattern, generate
from sterna.engines.simulator.models.catalogue import default_model, make_jobs, model_entry, performance_model
from sterna.engines.simulator.specon import specon_jobs
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.errors import InvalidRequest
from sterna.model.nodes import Node
from sterna.model.trace import RowProblem, Trace, TraceRow
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.trace_reading import read_trace

_SPECON = "specon"  # a pattern of its own: jobs like those of SpeCon's experiment


class MadeJobs(NamedTuple):
    jobs: list[SimulatedJob]
    problems: tuple[RowProblem, ...]  # rows that the model cannot use
    by_rounds: bool  # the model can only go in rounds


def trace_of(request: TraceRequest, *, seed: int) -> Trace:
    if request.generate is not None:
        if request.file is not None:
            raise InvalidRequest(field="generate", value=request.generate, expected="nothing, where a trace is given")
        rows = _made_up(request.generate, jobs=request.jobs, seed=seed)
        return Trace(f"{request.generate}-{request.jobs}", "sterna", rows)
    if request.file is None:
        raise InvalidRequest(field="trace", value=None, expected="a trace file, or a pattern to generate one")
    return read_trace(request.file, request.format)


def generated_trace(pattern: str, *, jobs: int, seed: int) -> str:
    """A made-up trace as CSV."""
    return dump_rows(_made_up(pattern, jobs=jobs, seed=seed))


def jobs_of(trace: Trace, request: ModelRequest, nodes: tuple[Node, ...], *, elastic: bool) -> MadeJobs:
    """`elastic`: the policy gives jobs more than they ask for, so the model says how much is of use."""
    name = request.name or default_model(trace.format)
    entry = model_entry(name)
    settings = dict(request.settings)
    if "sizing" in {option.name for option in fields(entry.options)}:
        settings.setdefault("sizing", request.sizing or ("model" if elastic else "request"))
    elif request.sizing is not None:
        raise InvalidRequest(field="sizing", value=request.sizing, expected=f"nothing: model {name} has one size only")
    build = performance_model(name, profiles=request.profiles, settings=settings, nodes=nodes)
    made = make_jobs(trace.rows, build)
    return MadeJobs(made.jobs, made.problems, entry.by_rounds)


def require_gpus(request: ClusterRequest, jobs: list[SimulatedJob]) -> None:
    """Equal nodes without GPUs suit jobs without; a file may know better."""
    if request.file is None and not request.gpus_per_node and any(job.spec.request.gpu_milli for job in jobs):
        expected = "1 or more: jobs of this trace ask for GPUs"
        raise InvalidRequest(field="--gpus-per-node", value=0, expected=expected)


def _made_up(pattern: str, *, jobs: int, seed: int) -> tuple[TraceRow, ...]:
    if pattern == _SPECON:
        return specon_jobs(jobs=jobs, seed=seed)
    if pattern not in tuple(Pattern):
        raise InvalidRequest(field="pattern", value=pattern, expected="one of: " + ", ".join((*Pattern, _SPECON)))
    return generate(jobs, pattern, seed=seed)
