"""From options that were typed to the request that the simulator is asked. The one place that knows both shapes."""

from typing import TYPE_CHECKING

from sterna.interfaces.cli.choices import PolicyChoice, rebalancer_names, settings, trace_path
from sterna.interfaces.cli.options import RunOptions

if TYPE_CHECKING:
    from sterna.compose import SimulationRequest


def simulation_request(
    policy: PolicyChoice, run: RunOptions, *, trace: str | None, generate: str | None = None, jobs: int = 0
) -> "SimulationRequest":
    from sterna.compose import SimulationRequest

    return SimulationRequest(
        trace=None if trace is None else trace_path(trace),
        generate=generate,
        jobs=jobs,
        policy=policy.name,
        settings=dict(policy.settings),
        format=run.format,
        nodes=run.nodes,
        gpus_per_node=run.gpus_per_node,
        cpus_per_node=run.cpus_per_node,
        memory_gib_per_node=run.memory_per_node,
        cluster=run.cluster,
        model=run.model,
        model_settings=settings(run.model_set, flag="--model-set"),
        profiles=run.profiles,
        sizing=run.sizing,
        start_cost_s=run.start_cost,
        rescale_cost_s=run.rescale_cost,
        migrate_cost_s=run.migrate_cost,
        interval_s=run.interval,
        rate_limit_s=run.rate_limit,
        placement=run.placement,
        estimates=run.estimates,
        starving_after_s=run.starving_after,
        idle_cpu_share=run.idle_cpu_share,
        grace_s=run.grace,
        whole_seconds=run.whole_seconds,
        foretells_again=run.foretell_again,
        contention=run.contention,
        rebalance=tuple(rebalancer_names(run.rebalance)),
        rebalance_settings=settings(run.rebalance_set, flag="--rebalance-set"),
        pin=run.pin,
        node_events=run.node_events,
        serving=run.serving,
        seed=run.seed,
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
