"""From options that were typed to the request that the simulator is asked. The one place that knows both shapes."""

from sterna.compose.simulation_requests import (
    ClusterRequest,
    CostsRequest,
    ModelRequest,
    RebalanceRequest,
    RulesRequest,
    SimulationRequest,
    TimingRequest,
    TraceRequest,
)
from sterna.interfaces.cli.choices import PolicyChoice, rebalancer_names, settings
from sterna.interfaces.cli.options import RunOptions
from sterna.wire.traces.shipped import trace_path


def simulation_request(
    policy: PolicyChoice, run: RunOptions, *, trace: str | None, generate: str | None = None, jobs: int = 0
) -> SimulationRequest:
    file = None if trace is None else trace_path(trace)
    return SimulationRequest(
        trace=TraceRequest(file=file, format=run.format, generate=generate, jobs=jobs),
        cluster=_cluster(run),
        model=_model(run),
        rules=_rules(policy, run),
        costs=CostsRequest(start_s=run.start_cost, rescale_s=run.rescale_cost, migrate_s=run.migrate_cost),
        timing=_timing(run),
        estimates=run.estimates,
        pin=run.pin,
        seed=run.seed,
    )


def _cluster(run: RunOptions) -> ClusterRequest:
    return ClusterRequest(
        nodes=run.nodes,
        gpus_per_node=run.gpus_per_node,
        cpus_per_node=run.cpus_per_node,
        memory_gib_per_node=run.memory_per_node,
        file=run.cluster,
        node_events=run.node_events,
        serving=run.serving,
    )


def _model(run: RunOptions) -> ModelRequest:
    return ModelRequest(
        name=run.model,
        settings=settings(run.model_set, flag="--model-set"),
        profiles=run.profiles,
        sizing=run.sizing,
        contention=run.contention,
    )


def _rules(policy: PolicyChoice, run: RunOptions) -> RulesRequest:
    return RulesRequest(
        policy=policy.name,
        settings=dict(policy.settings),
        placement=run.placement,
        starving_after_s=run.starving_after,
        idle_cpu_share=run.idle_cpu_share,
        rebalance=RebalanceRequest(
            names=tuple(rebalancer_names(run.rebalance)), settings=settings(run.rebalance_set, flag="--rebalance-set")
        ),
    )


def _timing(run: RunOptions) -> TimingRequest:
    return TimingRequest(
        interval_s=run.interval,
        rate_limit_s=run.rate_limit,
        grace_s=run.grace,
        whole_seconds=run.whole_seconds,
        foretells_again=run.foretell_again,
    )


def described(run: RunOptions) -> list[tuple[str, str]]:
    """What all runs of a report have in common, as pairs of words; what was left at "none" is left out."""
    costs = (run.start_cost, run.rescale_cost, run.migrate_cost)
    pairs = [
        ("cluster", run.cluster or f"{run.nodes} nodes x {run.gpus_per_node} GPUs"),
        ("model", run.model),
        ("model options", ", ".join(run.model_set)),
        ("sizing", run.sizing),
        ("pauses (start, resize, migrate)", ", ".join(f"{cost:g} s" for cost in costs) if any(costs) else "none"),
        ("rounds", None if run.interval is None else f"every {run.interval:g} s"),
        ("rate limit", None if run.rate_limit is None else f"{run.rate_limit:g} s"),
        ("placement", run.placement),
        ("contention", None if run.contention == "none" else run.contention),
        ("rebalancing", run.rebalance),
        ("rebalancing options", ", ".join(run.rebalance_set)),
        ("pinned to", run.pin),
        ("estimates", run.estimates),
        ("node events", run.node_events),
        ("serving pods", run.serving),
    ]
    return [(name, words) for name, words in pairs if words]
