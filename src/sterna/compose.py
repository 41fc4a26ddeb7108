"""The one place where the parts are wired together: requests in, answers out; nothing about files or screens."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sterna import __version__
from sterna.engines.simulator.generate import Pattern, generate
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.catalogue import default_model, make_jobs, model_entry, performance_model
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.specon import specon_jobs
from sterna.engines.simulator.training import SimulatedJob
from sterna.journal.journal import Journal, Shapes, TextJournal
from sterna.journal.replay import Entry, Replayed, read_journal, replay
from sterna.lifecycle.rule_names import placement_for, rebalancers, split_settings
from sterna.model.errors import InvalidRequest
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import JobId
from sterna.model.judging import Judge
from sterna.model.learning import Knowledge
from sterna.model.nodes import Node
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.trace import RowProblem, Trace, TraceRow
from sterna.placement.pinning import Pins, pinned
from sterna.placement.rebalancing import Rebalancing
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named
from sterna.wire.decision_file import decision_record, event_record, outcome_record
from sterna.wire.happenings import read_node_events, read_serving
from sterna.wire.limits import SNAPSHOT_BYTES_MAX, check_document
from sterna.wire.snapshot_file import load_snapshot, snapshot_document, snapshot_of
from sterna.wire.traces.clusters import read_cluster, uniform_nodes
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.pins import read_pins
from sterna.wire.traces.reading import opened, read_trace

if TYPE_CHECKING:
    from sterna.engines.local.api.service import LocalScheduler
    from sterna.wire.manifests import ManifestDocument

_ROUND_S = 60.0  # what profile models go in where nobody says otherwise
_ROUND_MIN_S = 0.1  # shorter ones only ask the same question again, millions of times
_JOURNAL_LINE_MAX = 1 << 26  # one line holds a whole snapshot and its decision
_ESTIMATES = ("exact", "learned")
_CONTENTIONS = ("none", "cpu")
_SPECON = "specon"  # a pattern of its own: jobs like those of SpeCon's experiment
_SHAPES = Shapes(snapshot=snapshot_document, decision=decision_record, outcome=outcome_record, event=event_record)


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
    cpus_per_node: int = 128
    memory_gib_per_node: int = 1024
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
    idle_cpu_share: float | None = None  # of nodes with GPUs, for jobs without
    rebalance: tuple[str, ...] = ()  # who moves work beyond what placement does
    rebalance_settings: Mapping[str, str] = field(default_factory=dict)
    contention: str = "none"  # what containers on a node get into each other's way for
    pin: str | None = None  # a file that says where jobs start
    seed: int = 0
    node_events: str | None = None
    serving: str | None = None


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    result: SimulationResult
    problems: tuple[RowProblem, ...]  # rows of the trace that were left out


def run_simulation(
    request: SimulationRequest,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    journal: Journal | None = None,
    pins: Pins | None = None,
) -> SimulationOutcome:
    """Read or make the trace, build the jobs, run the policy over them. `pins`: where jobs start, instead of a file."""
    if request.interval_s is not None and request.interval_s < _ROUND_MIN_S:
        raise InvalidRequest(field="interval", value=request.interval_s, expected=f"{_ROUND_MIN_S:g} seconds or more")
    chosen = policy_named(request.policy, request.settings)
    nodes = _nodes(request)
    trace = _trace(request)
    jobs, problems, by_rounds = _jobs(request, trace, nodes, chosen)
    node_events, serving = _scenario(request, nodes)
    where = placement_for(chosen, request.placement)
    moving = rebalancers(request.rebalance, request.rebalance_settings)
    require_nodes(where, moving)
    if request.contention not in _CONTENTIONS:
        raise InvalidRequest(
            field="contention", value=request.contention, expected="one of: " + ", ".join(_CONTENTIONS)
        )
    place = placement(where)
    if pins is None and request.pin is not None:
        pins = read_pins(request.pin)
    if pins is not None:
        require_pinnable(where)
        place = pinned(place, pins)
    setup = Simulation(
        nodes=nodes,
        jobs=jobs,
        size=chosen,
        place=place,
        settings=Settings(
            counted=where == "count",
            starving_after_s=request.starving_after_s,
            rebalance=moving,
            idle_cpu_share=request.idle_cpu_share,
        ),
        costs=Costs(request.start_cost_s, request.rescale_cost_s, request.migrate_cost_s),
        interval_s=request.interval_s if request.interval_s is not None or not by_rounds else _ROUND_S,
        rate_limit_s=request.rate_limit_s or 0.0,
        whole_seconds=request.whole_seconds,
        foretells_again=request.foretells_again,
        grace_s=request.grace_s,
        knowledge=_knowledge(request),
        node_events=node_events,
        serving=serving,
        shares_cpu=request.contention == "cpu",
        judge=Judge.of(split_settings(request.rebalance_settings)[0]) if moving is not None else None,
        seed=request.seed,
        policy_name=chosen.name,
        trace_name=trace.name,
    )
    result = simulate(setup, journal=journal, on_progress=on_progress)
    return SimulationOutcome(result, (*trace.problems, *problems))


async def run_local(
    serve: Callable[["LocalScheduler"], Awaitable[bool]],
    *,
    home: Path,
    nodes: int | None = None,
    gpus_per_node: int = 0,
    cpus_per_node: float | None = None,
    memory_bytes_per_node: int | None = None,
    policy: str | None = None,
    settings: Mapping[str, str] | None = None,
    placement: str | None = None,
    rate_limit_s: float | None = None,
    rebalance: Sequence[str] | None = None,
    rebalance_settings: Mapping[str, str] | None = None,
    idle_cpu_share: float | None = None,
    monitor_secret: str | None = None,
) -> None:
    """The local engine for as long as `serve` lasts, which answers whether jobs are left running.

    Without `nodes` there is one: this machine. The engine's parts are imported here: simulations have no use for them.
    """
    from sterna.engines.local.api.service import open_local
    from sterna.engines.local.process.assembly import LocalConfig
    from sterna.engines.local.world.machine_nodes import ThisMachine, VirtualNodes

    virtual = VirtualNodes(
        count=nodes or 1,
        gpus_per_node=gpus_per_node,
        cpus_per_node=cpus_per_node,
        memory_bytes_per_node=memory_bytes_per_node,
    )
    scheduler = open_local(
        LocalConfig(
            home=home,
            parse=_runnable_jobs,
            nodes=ThisMachine() if nodes is None else virtual,
            policy=policy,
            settings=settings or {},
            placement=placement,
            rate_limit_s=rate_limit_s,
            rebalance=rebalance,
            rebalance_settings=rebalance_settings or {},
            idle_cpu_share=idle_cpu_share,
            monitor_secret=monitor_secret,
            shapes=_SHAPES,
        )
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run())
            await scheduler.ready()
            leave_jobs = await serve(scheduler)
            await scheduler.close(stop_jobs=not leave_jobs)
    except BaseExceptionGroup as group:  # whichever of the two failed, the other was ended; jobs run on
        raise group.exceptions[0] from None


def _runnable_jobs(text: str) -> "tuple[ManifestDocument, ...]":
    """Jobs as processes can run them."""
    from sterna.wire.manifests import read_manifests, require_runnable

    return tuple(replace(document, workload=require_runnable(document.workload)) for document in read_manifests(text))


async def run_operator(
    *, kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None, **settings: Any
) -> None:
    """The Kubernetes engine until SIGTERM or SIGINT. `settings` are those of `OperatorConfig`; None: its default.

    `namespace` None: that of the kubeconfig or of the pod we run in. The engine's parts are imported here: nothing else
    needs them, nor the extra that they come with.
    """
    from sterna.engines.kubernetes.apiserver.client import Limits, connect, discovered
    from sterna.engines.kubernetes.process.operator import Operator
    from sterna.engines.kubernetes.process.settings import OperatorConfig
    from sterna.wire.manifests import read_migration, workload_of_object

    found = discovered(kubeconfig=kubeconfig, context=context)
    said = {name: value for name, value in settings.items() if value is not None}
    config = OperatorConfig(namespace=namespace or found.namespace, **said)
    async with connect(found, limits=Limits(in_flight=config.in_flight)) as api:
        operator = Operator(config, api, parse=workload_of_object, read_migration=read_migration)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, operator.stop)
        try:
            await operator.run()
        except BaseExceptionGroup as group:  # whichever part failed, the others were ended; jobs run on
            raise group.exceptions[0] from None


def text_journal(request: SimulationRequest, sink: Callable[[str], object]) -> TextJournal:
    """A journal of this simulation as text. It opens with all that deciding again depends on beside the snapshots."""
    chosen = policy_named(request.policy, request.settings)
    about = {
        "sterna": __version__,
        "policy": chosen.name,
        "settings": dict(request.settings),
        "placement": request.placement or chosen.placement,
        "starvingAfterSeconds": request.starving_after_s,
        "idleCpuShare": request.idle_cpu_share,
        "rebalance": list(request.rebalance),
        "rebalanceSettings": dict(request.rebalance_settings),
    }
    return TextJournal(sink, _SHAPES, about=about)


def replay_file(path: str) -> Iterator[Replayed]:
    """Every decision of a text journal, made again with what its first line says."""
    with opened(Path(path), what="journal", line_max=_JOURNAL_LINE_MAX) as lines:
        yield from replay_lines(lines)


def replay_lines(lines: Iterable[str]) -> Iterator[Replayed]:
    entries = read_journal(lines)
    again = _as_recorded(next(entries, None))
    yield from replay(entries, read_snapshot=_recorded_snapshot, decide=again, shape=decision_record)


def _as_recorded(first: Entry | None) -> Callable[[Snapshot], Decision]:
    about = first.parts.get("about") if first is not None and first.kind == "opened" else None
    if not isinstance(about, dict) or not isinstance(settings := about.get("settings", {}), dict):
        raise InvalidRequest(
            field="journal line 1", value=about, expected="what opens a journal: policy, settings, ..."
        )
    chosen = policy_named(str(about.get("policy")), {str(key): str(value) for key, value in settings.items()})
    where = str(about.get("placement") or chosen.placement)
    rules = Settings(
        counted=where == "count",
        starving_after_s=_number_as_recorded(about, "starvingAfterSeconds"),
        rebalance=_rebalancing_as_recorded(about),
        idle_cpu_share=_number_as_recorded(about, "idleCpuShare"),
    )
    place = placement(where)
    return lambda view: decide(view, chosen, place, rules)


def _number_as_recorded(about: Mapping[str, Any], key: str) -> float | None:
    said = about.get(key)
    if type(said) not in (int, float, type(None)):
        raise InvalidRequest(field=f"journal line 1: {key}", value=said, expected="a number, or null")
    return said


def _rebalancing_as_recorded(about: Mapping[str, Any]) -> Rebalancing | None:
    """Journals that were written before there were rebalancers name none."""
    names, settings = about.get("rebalance") or [], about.get("rebalanceSettings") or {}
    if not isinstance(names, list) or not isinstance(settings, dict):
        field = "journal line 1: rebalance"
        raise InvalidRequest(field=field, value=names, expected="a list of names, and rebalanceSettings an object")
    _, own = split_settings({str(key): str(value) for key, value in settings.items()})
    return rebalancers([str(name) for name in names], own)  # how growth was judged, the snapshots say


def _recorded_snapshot(document: Mapping[str, Any]) -> Snapshot:
    check_document(document, name="journal: snapshot")
    return snapshot_of(document)


def decide_file(
    path: str,
    *,
    policy: str,
    settings: Mapping[str, str] | None = None,
    placement: str | None = None,
    rebalance: Sequence[str] = (),
    rebalance_settings: Mapping[str, str] | None = None,
    idle_cpu_share: float | None = None,
) -> tuple[Snapshot, Decision]:
    """What the core does with the snapshot in this file; `-` reads standard input."""
    judging, own = split_settings(rebalance_settings or {})
    if judging:
        expected = "settings of rebalancers: how growth was judged, the snapshot says"
        raise InvalidRequest(field="rebalance settings", value=f"judge.{next(iter(judging))}", expected=expected)
    moving = rebalancers(rebalance, own)
    view = load_snapshot(_content(path))
    decision = decide_snapshot(
        view,
        policy=policy,
        settings=settings,
        placement_name=placement,
        rebalance=moving,
        idle_cpu_share=idle_cpu_share,
    )
    return view, decision


def decide_snapshot(
    view: Snapshot,
    *,
    policy: str,
    settings: Mapping[str, str] | None = None,
    placement_name: str | None = None,
    rebalance: Rebalancing | None = None,
    idle_cpu_share: float | None = None,
) -> Decision:
    """The pure core with policy and placement by name: also how a recorded decision is replayed."""
    chosen = policy_named(policy, settings or {})
    where = placement_for(chosen, placement_name)
    require_nodes(where, rebalance)
    rules = Settings(counted=where == "count", rebalance=rebalance, idle_cpu_share=idle_cpu_share)
    return decide(view, chosen, placement(where), rules)


def require_nodes(placement_name: str, rebalance: Rebalancing | None) -> None:
    """Where only sums are counted there is nothing to move from and to."""
    if placement_name == "count" and rebalance is not None:
        raise InvalidRequest(
            field="placement", value="count", expected="one that knows nodes, as rebalancers move work"
        )


def generated_trace(pattern: str, *, jobs: int, seed: int) -> str:
    """A made-up trace as CSV."""
    return dump_rows(_made_up(pattern, jobs=jobs, seed=seed))


def _made_up(pattern: str, *, jobs: int, seed: int) -> tuple[TraceRow, ...]:
    if pattern == _SPECON:
        return specon_jobs(jobs=jobs, seed=seed)
    if pattern not in tuple(Pattern):
        raise InvalidRequest(field="pattern", value=pattern, expected="one of: " + ", ".join((*Pattern, _SPECON)))
    return generate(jobs, pattern, seed=seed)


def pins_of(result: SimulationResult) -> Pins:
    """Where the jobs of a run first started, for another run to start them there."""
    return {
        JobId(record.id): {(worker.role, worker.ordinal): worker.node for worker in record.first_workers}
        for record in result.records
        if record.first_workers
    }


def require_pinnable(placement_name: str) -> None:
    if placement_name == "count":
        raise InvalidRequest(field="pin", value=placement_name, expected="a placement that knows nodes, not count")


def _nodes(request: SimulationRequest) -> tuple[Node, ...]:
    if request.cluster is not None:
        return read_cluster(request.cluster)
    return uniform_nodes(
        request.nodes,
        request.gpus_per_node,
        cpus_per_node=request.cpus_per_node,
        memory_gib_per_node=request.memory_gib_per_node,
    )


def _trace(request: SimulationRequest) -> Trace:
    if request.generate is not None:
        if request.trace is not None:
            raise InvalidRequest(field="generate", value=request.generate, expected="nothing, where a trace is given")
        rows = _made_up(request.generate, jobs=request.jobs, seed=request.seed)
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
    if request.cluster is None and not request.gpus_per_node and any(job.spec.request.gpu_milli for job in made.jobs):
        expected = "1 or more: jobs of this trace ask for GPUs"
        raise InvalidRequest(field="--gpus-per-node", value=0, expected=expected)
    return made.jobs, made.problems, entry.by_rounds


def _scenario(
    request: SimulationRequest, nodes: tuple[Node, ...]
) -> tuple[tuple[NodeEvent, ...], tuple[ServingPod, ...]]:
    events = () if request.node_events is None else read_node_events(request.node_events, like=nodes[0])
    _require_known_nodes(events, nodes)
    return events, () if request.serving is None else read_serving(request.serving)


def _require_known_nodes(events: tuple[NodeEvent, ...], nodes: tuple[Node, ...]) -> None:
    """Before the simulation begins rather than an hour into it."""
    known = {node.id for node in nodes}
    for event in sorted(events, key=lambda event: event.at_s):
        added = event.change is NodeChange.ADDED
        if added is (event.node_id in known):
            there = f"{', '.join(sorted(known)[:3])}, ..."
            expected = f"a name that no node has ({there})" if added else f"a node that is there: {there}"
            raise InvalidRequest(field=f"node events: {event.change} node", value=event.node_id, expected=expected)
        known.add(event.node_id)


def _knowledge(request: SimulationRequest) -> Knowledge | None:
    if request.estimates not in _ESTIMATES:
        raise InvalidRequest(field="estimates", value=request.estimates, expected="one of: " + ", ".join(_ESTIMATES))
    return Knowledge() if request.estimates == "learned" else None


def _content(path: str) -> bytes:
    """At most a byte more than may be read: enough to be refused, however long the file is."""
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as source:
            return source.read(SNAPSHOT_BYTES_MAX + 1)
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise InvalidRequest(field="snapshot", value=path, expected=expected) from None
