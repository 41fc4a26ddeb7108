"""A simulation from its request to its result: the jobs, the nodes and the rules put together, and run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sterna.compose.chosen_rules import ChosenRules, chosen_rules
from sterna.compose.simulated_cluster import node_events_of, nodes_of, serving_of
from sterna.compose.simulated_jobs import jobs_of, require_gpus, trace_of
from sterna.compose.simulation_requests import SimulationRequest
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.journal.journal import Journal
from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.learning import Knowledge
from sterna.model.trace import RowProblem
from sterna.placement.pinning import Pins, pinned
from sterna.placement.strategies import Placement
from sterna.wire.traces.pins import read_pins

_ROUND_S = 60.0  # of models that go in rounds, where the request does not say
_ROUND_MIN_S = 0.1  # shorter ones only ask the same question again, millions of times
_ESTIMATES = ("exact", "learned")
_CONTENTIONS = ("none", "cpu")


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
    setup, problems = simulation_of(request, pins=pins)
    return SimulationOutcome(simulate(setup, journal=journal, on_progress=on_progress), problems)


def simulation_of(request: SimulationRequest, *, pins: Pins | None = None) -> tuple[Simulation, tuple[RowProblem, ...]]:
    """Everything that a run needs, and the rows of the trace that were left out. Jobs carry state: one run each."""
    _require_sense(request)
    rules = chosen_rules(request.rules)
    nodes = nodes_of(request.cluster)
    trace = trace_of(request.trace, seed=request.seed)
    made = jobs_of(trace, request.model, nodes, elastic=rules.policy.entry.elastic)
    require_gpus(request.cluster, made.jobs)
    setup = Simulation(
        nodes=nodes,
        jobs=made.jobs,
        size=rules.policy,
        place=_place(request, rules, pins),
        settings=rules.settings,
        knowledge=Knowledge() if request.estimates == "learned" else None,
        node_events=node_events_of(request.cluster, nodes),
        serving=serving_of(request.cluster),
        shares_cpu=request.model.contention == "cpu",
        judge=rules.judge,
        policy_name=rules.policy.name,
        trace_name=trace.name,
        seed=request.seed,
    )
    return _timed(setup, request, by_rounds=made.by_rounds), (*trace.problems, *made.problems)


def pins_of(result: SimulationResult) -> Pins:
    """Where the jobs of a run first started, for another run to start them there."""
    return {
        JobId(record.id): {(worker.role, worker.ordinal): worker.node for worker in record.first_workers}
        for record in result.records
        if record.first_workers
    }


def _timed(setup: Simulation, request: SimulationRequest, *, by_rounds: bool) -> Simulation:
    """The same with what changes cost and when decisions are made."""
    timing, costs = request.timing, request.costs
    return replace(
        setup,
        costs=Costs(costs.start_s, costs.rescale_s, costs.migrate_s),
        interval_s=timing.interval_s if timing.interval_s is not None or not by_rounds else _ROUND_S,
        rate_limit_s=timing.rate_limit_s or 0.0,
        grace_s=timing.grace_s,
        whole_seconds=timing.whole_seconds,
        foretells_again=timing.foretells_again,
    )


def _place(request: SimulationRequest, rules: ChosenRules, pins: Pins | None) -> Placement:
    if pins is None and request.pin is not None:
        pins = read_pins(request.pin)
    if pins is None:
        return rules.place
    if not rules.knows_nodes:
        raise InvalidRequest(field="pin", value="count", expected="a placement that knows nodes, not count")
    return pinned(rules.place, pins)


def _require_sense(request: SimulationRequest) -> None:
    interval_s = request.timing.interval_s
    if interval_s is not None and interval_s < _ROUND_MIN_S:
        raise InvalidRequest(field="interval", value=interval_s, expected=f"{_ROUND_MIN_S:g} seconds or more")
    _require_one_of(_CONTENTIONS, "contention", request.model.contention)
    _require_one_of(_ESTIMATES, "estimates", request.estimates)


def _require_one_of(choices: tuple[str, ...], field: str, value: str) -> None:
    if value not in choices:
        raise InvalidRequest(field=field, value=value, expected="one of: " + ", ".join(choices))
