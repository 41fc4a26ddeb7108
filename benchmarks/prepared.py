"""From a request to everything a simulation needs, ready to run: so that reading and building can be timed by
themselves, and so that a part can be exchanged before the run.

`sterna.compose` does the same in one go. Only what the benchmarks ask for is understood here: a trace file, equal
nodes, costs, rounds or a rate limit.
"""

from sterna.compose import SimulationRequest
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.catalogue import default_model, make_jobs, performance_model
from sterna.engines.simulator.simulate import Simulation
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings
from sterna.policies.registry import policy
from sterna.wire.traces.clusters import uniform_nodes
from sterna.wire.traces.reading import read_trace


def prepared(request: SimulationRequest) -> Simulation:
    """The simulation that this request asks for. Jobs carry their state, so each run needs its own."""
    assert request.trace is not None
    trace = read_trace(request.trace, request.format)
    nodes = uniform_nodes(request.nodes, request.gpus_per_node)
    chosen = policy(request.policy, request.settings)
    model = request.model or default_model(trace.format)
    settings = {} if request.sizing is None else {"sizing": request.sizing}
    build = performance_model(model, profiles=request.profiles, settings=settings, nodes=nodes)
    where = request.placement or chosen.placement
    return Simulation(
        nodes=nodes,
        jobs=make_jobs(trace.rows, build).jobs,
        size=chosen,
        place=placement(where),
        settings=Settings(counted=where == "count"),
        costs=Costs(request.start_cost_s, request.rescale_cost_s, request.migrate_cost_s),
        interval_s=request.interval_s,
        rate_limit_s=request.rate_limit_s or 0.0,
        whole_seconds=request.whole_seconds,
        foretells_again=request.foretells_again,
        policy_name=chosen.name,
        trace_name=trace.name,
    )
