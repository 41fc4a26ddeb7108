"""SpeCon's experiment and container-migration's, replayed: what moving converged work is worth, and who pays."""

import itertools
import math
from dataclasses import replace

import pytest

from sterna.compose.simulation import pins_of, run_simulation
from sterna.compose.simulation_requests import (
    ClusterRequest,
    ModelRequest,
    RulesRequest,
    SimulationRequest,
    TraceRequest,
)
from sterna.engines.simulator.container_migration import SCENARIOS, container_migration_jobs
from sterna.engines.simulator.models.catalogue import make_jobs, performance_model
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.specon import fitted_jobs, specon_jobs
from sterna.interfaces.scenarios.scenario_catalogue import scenario_named
from sterna.interfaces.scenarios.scenario_runs import run_scenario
from sterna.model.growth import Category
from sterna.model.judging import Judge
from sterna.placement.strategies import placement
from sterna.policies.registry import policy
from sterna.wire.traces.clusters import uniform_nodes
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.pins import dump_pins, read_pins
from sterna.wire.traces.shipped import shipped_traces

PUBLISHED_S = [  # completion times under Kubernetes' own scheduler, shortest first
    *(217, 219, 233, 244, 252, 266, 343, 354, 362, 363, 365, 368, 378, 388, 391, 396, 396, 406, 428, 433, 433, 451),
    *(467, 468, 511, 526, 604, 612, 638, 641, 646, 652, 752, 755, 786, 788, 803, 816, 878, 890, 922, 948, 970, 974),
    *(982, 982, 1008, 1016, 1048, 1048),
]


@pytest.fixture(scope="module")
def specon():
    return run_scenario(scenario_named("specon-50"))


@pytest.fixture(scope="module")
def uneven():
    return run_scenario(scenario_named("specon-50-uneven"))


def test_voda_38_the_published_times_are_about_those_without_migration(specon):
    times = sorted(job.after_s for job in specon[0].jobs)
    assert (len(times), specon[0].moves) == (50, 0)
    assert sum(times) == pytest.approx(sum(PUBLISHED_S), rel=0.05)
    apart = [ours - theirs for ours, theirs in zip(times, PUBLISHED_S, strict=True)]
    assert math.hypot(*apart) / math.sqrt(len(apart)) < 50


def test_voda_38_moving_converged_work_is_worth_what_the_row_asks_for(uneven):
    """On the mix with a few large trainings, on the draw whose times without moves span what is published. The goals
    beyond the row (a mean 10 % shorter; 8 % with the cost model) are not reached: `docs/specon.md`.
    """
    times = [job.before_s for job in uneven[0].jobs]
    assert (min(times), max(times)) == pytest.approx((min(PUBLISHED_S), max(PUBLISHED_S)), rel=0.01)
    for moving in uneven[1:]:
        assert moving.makespan_change <= -0.17
        assert moving.mean_change <= -0.07
        assert moving.worst.change <= 0.37


def test_voda_38_where_times_are_the_published_ones_the_last_job_is_much_sooner_and_the_mean_a_little(specon):
    """There the row's mean (7 %) is out of reach, and with SpeCon as published its worst job (+37 %) as well."""
    _, published, careful = specon
    for moving in (published, careful):
        assert moving.makespan_change <= -0.17
        assert moving.mean_change <= -0.7 * 0.073  # of what the published figure shows
        assert moving.best.change < -0.2


def test_with_the_cost_model_nobody_pays_much(specon, uneven):
    for _, published, careful in (specon, uneven):
        assert careful.worst.change <= 0.15
        assert 0 < careful.moves < published.moves


def test_voda_38_losers_are_reported(specon):
    for outcome in specon[1:]:
        later = {job.job for job in outcome.jobs if job.change > 0.01}
        assert {job.job for job in outcome.losers} == later
        assert outcome.losers[0] == outcome.worst


def test_voda_38_at_most_one_move_a_round_and_rounds_are_thirty_seconds(specon):
    moved_s = [at_s for at_s, move in specon[1].result.considered if move.to is not None]
    assert moved_s
    assert all(later - earlier >= 30.0 - 1e-6 for earlier, later in itertools.pairwise(moved_s))


def test_voda_39_every_job_starts_on_the_same_node_in_all_arms(specon):
    starts = [{record.id: record.first_workers for record in outcome.result.records} for outcome in specon]
    assert starts[0] == starts[1] == starts[2]
    moved = [record for record in specon[1].result.records if record.migrations]
    assert all(record.segments[-1].nodes != record.segments[0].nodes or record.migrations > 1 for record in moved)


def test_voda_39_pins_are_saved_and_used_by_another_run(tmp_path):
    spread = SimulationRequest(
        trace=TraceRequest(generate="specon", jobs=20),
        cluster=ClusterRequest(nodes=4, gpus_per_node=0),
        model=ModelRequest(name="fixed"),
        rules=RulesRequest(policy="fifo", placement="spread"),
    )
    first = run_simulation(spread).result
    path = tmp_path / "pins.csv"
    path.write_text(dump_pins(pins_of(first)))
    assert read_pins(path) == pins_of(first)
    packed = replace(spread, rules=RulesRequest(policy="fifo", placement="packed"))
    piled = run_simulation(packed).result
    again = run_simulation(replace(packed, pin=str(path))).result
    assert pins_of(piled) != pins_of(first)
    assert pins_of(again) == pins_of(first)


def test_converging_jobs_are_judged_in_order_and_by_work_not_by_time():
    """They share a node: however slow that makes them, all converge, after they progressed and were watched."""
    seen: dict[str, list[Category]] = {}

    def look(view):
        for job in view.jobs:
            if job.growth is not None and job.growth.category not in seen.setdefault(job.id, []):
                seen[job.id].append(job.growth.category)

    setup = Simulation(
        nodes=uniform_nodes(1, 0, cpus_per_node=4),
        jobs=make_jobs(specon_jobs(jobs=6, seed=3), performance_model("fixed")).jobs,
        size=policy("fifo", {}),
        place=placement("spread"),
        interval_s=10.0,
        shares_cpu=True,
        judge=Judge(),
    )
    result = simulate(setup, observer=look)
    assert all(record.finished_s is not None for record in result.records)
    assert len(seen) == 6
    for categories in seen.values():
        assert categories == [Category.PROGRESSING, Category.WATCHING, Category.CONVERGED]


def test_the_shipped_jobs_are_what_the_generators_make():
    shipped = {name: path.read_text(encoding="utf-8") for name, path in shipped_traces().items()}
    assert shipped["specon-50"] == dump_rows(fitted_jobs())
    assert shipped["specon-50-uneven"] == dump_rows(specon_jobs())
    for letter in SCENARIOS:
        assert shipped[f"container-migration-{letter}"] == dump_rows(container_migration_jobs(letter))


@pytest.mark.parametrize("letter", ["a", "b", "d"])
def test_dragon_43_where_jobs_are_piled_up_moving_workers_shortens_the_makespan(letter):
    baseline, moving = run_scenario(scenario_named(f"container-migration-{letter}"))
    assert baseline.moves == 0
    assert moving.moves > 0
    assert moving.makespan_change < -0.2
    assert moving.worst.change <= 0.01


@pytest.mark.parametrize("letter", ["c", "e"])
def test_dragon_43_where_nodes_are_balanced_nothing_moves(letter):
    baseline, moving = run_scenario(scenario_named(f"container-migration-{letter}"))
    assert moving.moves == 0
    assert moving.makespan_s == baseline.makespan_s


@pytest.mark.parametrize("letter", sorted(SCENARIOS))
def test_dragon_43_jobs_start_where_they_prefer_to_be(letter):
    baseline, _ = run_scenario(scenario_named(f"container-migration-{letter}"))
    for record, member in zip(baseline.result.records, SCENARIOS[letter], strict=True):
        assert {worker.node for worker in record.first_workers} == {f"node-{member.node - 1:03}"}
        assert len(record.first_workers) == member.workers + 1


def test_dragon_43_parameter_servers_are_never_moved():
    _, moving = run_scenario(scenario_named("container-migration-d"))
    assert {move.worker.role for _, move in moving.result.considered if move.to is not None} == {"worker"}
