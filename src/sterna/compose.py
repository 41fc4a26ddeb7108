"""The one place where the parts are wired together: requests in, answers out; nothing about files or screens."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from sterna.engines.simulator.generate import generate
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.catalogue import default_model, make_jobs, model_entry, performance_model
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.errors import InvalidRequest
from sterna.model.happenings import NodeEvent, ServingPod
from sterna.model.learning import Knowledge
from sterna.model.nodes import Node
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.trace import RowProblem, Trace
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named
from sterna.wire.happenings import read_node_events, read_serving
from sterna.wire.snapshot_file import load_snapshot
from sterna.wire.traces.clusters import read_cluster, uniform_nodes
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.reading import read_trace

_ROUND_S = 60.0  # what profile models go in where nobody says otherwise
_ESTIMATES = ("exact", "learned")


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """What a simulation is asked to do, in the words of the command line. None: whatever suits the rest."""

    trace: str | None = None
    format: str | None = None
    generate: str | None = None  # a pattern of arrivals, instead of a trace
    jobs: int = 120  # of a generated trace
    policy: str = "fifo"
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 16
    gpus_per_node: int = 4
    cluster: str | None = None
    model: str | None = None
    model_settings: Mapping[str, str] = field(default_factory=dict)
    profiles: str | None = None
    sizing: str | None = None
    start_cost_s: float = 0.0
    rescale_cost_s: float = 0.0
    migrate_cost_s: float = 0.0
    interval_s: float | None = None
    rate_limit_s: float | None = None
    placement: str | None = None
    estimates: str = "exact"
    whole_seconds: bool = False
    foretells_again: bool = False
    grace_s: float = 0.0
    starving_after_s: float | None = None
    seed: int = 0
    node_events: str | None = None
    serving: str | None = None


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    result: SimulationResult
    problems: tuple[RowProblem, ...]  # rows of the trace that were left out


def run_simulation(
    request: SimulationRequest, *, on_progress: Callable[[int, int], None] | None = None
) -> SimulationOutcome:
    """Read or make the trace, build the jobs, run the policy over them."""
    chosen = policy_named(request.policy, request.settings)
    nodes = _nodes(request)
    trace = _trace(request)
    jobs, problems, by_rounds = _jobs(request, trace, nodes, chosen)
    node_events, serving = _scenario(request, nodes)
    where = request.placement or chosen.placement
    setup = Simulation(
        nodes=nodes,
        jobs=jobs,
        size=chosen,
        place=placement(where),
        settings=Settings(counted=where == "count", starving_after_s=request.starving_after_s),
        costs=Costs(request.start_cost_s, request.rescale_cost_s, request.migrate_cost_s),
        interval_s=request.interval_s if request.interval_s is not None or not by_rounds else _ROUND_S,
        rate_limit_s=request.rate_limit_s or 0.0,
        whole_seconds=request.whole_seconds,
        foretells_again=request.foretells_again,
        grace_s=request.grace_s,
        knowledge=_knowledge(request),
        node_events=node_events,
        serving=serving,
        seed=request.seed,
        policy_name=chosen.name,
        trace_name=trace.name,
    )
    return SimulationOutcome(simulate(setup, on_progress=on_progress), (*trace.problems, *problems))


def decide_file(
    path: str, *, policy: str, settings: Mapping[str, str] | None = None, placement: str | None = None
) -> tuple[Snapshot, Decision]:
    """What the core does with the snapshot in this file; `-` reads standard input."""
    view = load_snapshot(_content(path))
    return view, decide_snapshot(view, policy=policy, settings=settings, placement_name=placement)


def decide_snapshot(
    view: Snapshot, *, policy: str, settings: Mapping[str, str] | None = None, placement_name: str | None = None
) -> Decision:
    """The pure core with policy and placement by name: also how a recorded decision is replayed."""
    chosen = policy_named(policy, settings or {})
    where = placement_name or chosen.placement
    return decide(view, chosen, placement(where), Settings(counted=where == "count"))


def generated_trace(pattern: str, *, jobs: int, seed: int) -> str:
    """A made-up trace as CSV."""
    return dump_rows(generate(jobs, pattern, seed=seed))


def _nodes(request: SimulationRequest) -> tuple[Node, ...]:
    if request.cluster is not None:
        return read_cluster(request.cluster)
    return uniform_nodes(request.nodes, request.gpus_per_node)


def _trace(request: SimulationRequest) -> Trace:
    if request.generate is not None:
        rows = generate(request.jobs, request.generate, seed=request.seed)
        return Trace(f"{request.generate}-{request.jobs}", "sterna", rows)
    if request.trace is None:
        raise InvalidRequest(field="trace", value=None, expected="a trace file, or a pattern to generate one")
    return read_trace(request.trace, request.format)


def _jobs(
    request: SimulationRequest, trace: Trace, nodes: tuple[Node, ...], chosen: Policy
) -> tuple[list[SimulatedJob], tuple[RowProblem, ...], bool]:
    """Simulated jobs, rows the model cannot use, and whether the model can only go in rounds."""
    name = request.model or default_model(trace.format)
    entry = model_entry(name)
    settings = dict(request.model_settings)
    if "sizing" in {option.name for option in fields(entry.options)}:
        settings.setdefault("sizing", request.sizing or ("model" if chosen.entry.elastic else "request"))
    elif request.sizing is not None:
        raise InvalidRequest(field="sizing", value=request.sizing, expected=f"nothing: model {name} has one size only")
    build = performance_model(name, profiles=request.profiles, settings=settings, nodes=nodes)
    made = make_jobs(trace.rows, build)
    return made.jobs, made.problems, entry.by_rounds


def _scenario(
    request: SimulationRequest, nodes: tuple[Node, ...]
) -> tuple[tuple[NodeEvent, ...], tuple[ServingPod, ...]]:
    events = () if request.node_events is None else read_node_events(request.node_events, like=nodes[0])
    return events, () if request.serving is None else read_serving(request.serving)


def _knowledge(request: SimulationRequest) -> Knowledge | None:
    if request.estimates not in _ESTIMATES:
        raise InvalidRequest(field="estimates", value=request.estimates, expected="one of: " + ", ".join(_ESTIMATES))
    return Knowledge() if request.estimates == "learned" else None


def _content(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise InvalidRequest(field="snapshot", value=path, expected=expected) from None
