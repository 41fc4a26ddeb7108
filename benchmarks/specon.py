"""What moving converged work is worth: SpeCon's experiment over many draws, and with other choices of what is free.

    python -m benchmarks.specon --json specon.json

Prints the shipped draw; then, for every mix of models and window of arrivals below, mean and spread over draws and how
many of them reach what the shipped one must. Simulated time only: the numbers are the same on every machine.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from sterna.compose.simulation import pins_of
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.catalogue import make_jobs, performance_model
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.specon import (
    ARRIVE_WITHIN_S,
    CPUS_PER_NODE,
    FITTED_MODELS,
    MODELS,
    NODES,
    Model,
    specon_jobs,
)
from sterna.interfaces.reports.grid import aligned
from sterna.interfaces.scenarios.scenario_catalogue import DELETE_AND_CREATE_S, REWARM_S, Arm, scenario_named
from sterna.interfaces.scenarios.scenario_runs import ArmOutcome, outcome, run_scenario
from sterna.interfaces.scenarios.scenario_text import arms_table
from sterna.model.judging import Judge
from sterna.placement.pinning import Pins, pinned
from sterna.placement.rebalancers.registry import rebalancing
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings
from sterna.policies.registry import policy
from sterna.wire.traces.clusters import uniform_nodes

MAKESPAN, MEAN, WORST = -0.17, -0.10, 0.37  # what the shipped draw must reach


class Mix(NamedTuple):
    """Choices of what is not published."""

    name: str
    models: tuple[Model, ...] = MODELS
    arrive_within_s: float = ARRIVE_WITHIN_S
    is_pinned: bool = True  # do jobs start where they start without moves?


MIXES = (
    Mix("uneven"),
    Mix("newcomers not pinned", is_pinned=False),
    Mix("arrivals in 450 s", arrive_within_s=450.0),
    Mix("arrivals in 600 s", arrive_within_s=600.0),
    Mix("specon-50", FITTED_MODELS),
)


def arms() -> tuple[Arm, ...]:
    return scenario_named("specon-50").arms


def run_draw(mix: Mix, seed: int) -> tuple[ArmOutcome, ...]:
    """All arms on one draw."""
    first = _run(mix, seed, arms()[0], None)
    pins = pins_of(first) if mix.is_pinned else None
    results = [first, *(_run(mix, seed, arm, pins) for arm in arms()[1:])]
    return tuple(outcome(arm, result, first) for arm, result in zip(arms(), results, strict=True))


def _run(mix: Mix, seed: int, arm: Arm, pins: Pins | None) -> SimulationResult:
    rows = specon_jobs(seed=seed, models=mix.models, arrive_within_s=mix.arrive_within_s)
    pause_s = DELETE_AND_CREATE_S + REWARM_S
    place = placement("spread")
    return simulate(
        Simulation(
            nodes=uniform_nodes(NODES, 0, cpus_per_node=CPUS_PER_NODE),
            jobs=make_jobs(rows, performance_model("fixed")).jobs,
            size=policy("fifo", {}),
            place=place if pins is None else pinned(place, pins),
            settings=Settings(rebalance=rebalancing(arm.rebalance, arm.settings) if arm.rebalance else None),
            costs=Costs(rescale_s=pause_s, migrate_s=pause_s),
            shares_cpu=True,
            judge=Judge() if arm.rebalance else None,
            seed=seed,
        )
    )


def measured(mix: Mix, draws: int) -> list[dict[str, Any]]:
    """One record an arm: means and standard deviations over draws."""
    everything = [run_draw(mix, seed) for seed in range(1, draws + 1)]
    spans = [sorted(job.after_s for job in outcomes[0].jobs) for outcomes in everything]
    records = []
    for of_arm in list(zip(*everything, strict=True))[1:]:
        reached = sum(
            one.makespan_change <= MAKESPAN and one.mean_change <= MEAN and one.worst.change <= WORST for one in of_arm
        )
        records.append(
            {
                "mix": mix.name,
                "arm": of_arm[0].arm.name,
                "draws": draws,
                "shortest_s": fmean(span[0] for span in spans),
                "longest_s": fmean(span[-1] for span in spans),
                "makespan": _spread([one.makespan_change for one in of_arm]),
                "mean": _spread([one.mean_change for one in of_arm]),
                "worst": _spread([one.worst.change for one in of_arm]),
                "moves": fmean(one.moves for one in of_arm),
                "reached": reached,
            }
        )
    return records


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), pstdev(values)


def _cells(record: dict[str, Any]) -> list[str]:
    changes = [f"{record[name][0]:+.1%} ± {record[name][1]:.1%}" for name in ("makespan", "mean", "worst")]
    span = f"{record['shortest_s']:.0f} to {record['longest_s']:.0f} s"
    reached = f"{record['reached']} of {record['draws']}"
    return [record["mix"], record["arm"], span, *changes, f"{record['moves']:.0f}", reached]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.specon", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers there")
    parser.add_argument("--draws", type=int, default=20, help="of every mix; 20")
    parser.add_argument("--quick", action="store_true", help="8 draws")
    arguments = parser.parse_args()
    shipped = run_scenario(scenario_named("specon-50"))
    print(arms_table(shipped), end="\n\n")
    records = [record for mix in MIXES for record in measured(mix, 8 if arguments.quick else arguments.draws)]
    head = ("mix", "arm", "without moves", "makespan", "mean", "worst job", "moves", "reached")
    print(aligned(head, [_cells(record) for record in records], left=2))
    if arguments.json:
        arms_found = [
            {"arm": one.arm.name, "makespan_s": one.makespan_s, "mean_s": one.mean_s, "worst": one.worst.change}
            for one in shipped
        ]
        Path(arguments.json).write_text(json.dumps({"shipped": arms_found, "draws": records}, indent=2) + "\n")


if __name__ == "__main__":
    main()
