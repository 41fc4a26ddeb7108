"""The real loop under bad luck: nodes lost, events lost, a scheduler that dies between steps. The seed is in the id."""

import os

import pytest
from tests.random_worlds import shares_by_card, used_by_node

from sterna.engines.simulator.generate import generate
from sterna.engines.simulator.misfortune import Costs, Faults
from sterna.engines.simulator.models.catalogue import make_jobs, performance_model
from sterna.engines.simulator.results import SimulationResult
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import NodeId
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings
from sterna.policies.registry import policy
from sterna.wire.traces.clusters import uniform_nodes

SEEDS = int(os.environ.get("STERNA_SEEDS", "24"))  # `make soak` asks for more
BAD_WEEK = Faults(node_losses_per_day=40, lost_wakes=0.05, crashes_mid_plan=0.03)
POLICIES = ("fifo", "elastic-fifo", "afs-l", "dragon", "elastic-tiresias", "ffdl")


def run(name: str, seed: int, *, jobs: int = 40, **more: object) -> SimulationResult:
    chosen = policy(name)
    rows = generate(jobs, "bursty", rate_per_hour=60, seed=seed)
    build = performance_model("amdahl", nodes=())
    seen: list[Snapshot] = []

    def look(view: Snapshot) -> None:
        require_nothing_overfull(view)
        seen.append(view)

    setup = Simulation(
        nodes=uniform_nodes(6, 8),
        jobs=make_jobs(rows, build).jobs,
        size=chosen,
        place=placement(chosen.placement),
        settings=Settings(starving_after_s=3600.0),
        costs=Costs(10, 20, 20),
        seed=seed,
        **more,  # type: ignore[arg-type]
    )
    result = simulate(setup, observer=look)
    assert seen
    return result


def require_nothing_overfull(view: Snapshot) -> None:
    for node_id, used in used_by_node(view.jobs).items():
        room = view.cluster.by_id[node_id].free_of_guests
        assert all(take <= have for have, take in zip(room[:3], used[:3], strict=True)), f"{node_id} at {view.now_s}"
    assert all(milli <= 1000 for milli in shares_by_card(view.jobs).values())
    for job in view.jobs:
        assert not job.size or job.spec.workers_min <= job.size <= job.spec.workers_max


def every_job_finished(result: SimulationResult) -> None:
    assert [record.id for record in result.records if record.finished_s is None] == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_r9_a_bad_week_still_finishes_every_job(seed):
    result = run(POLICIES[seed % len(POLICIES)], seed, faults=BAD_WEEK, grace_s=5.0 if seed % 2 else 0.0)
    every_job_finished(result)


@pytest.mark.parametrize("seed", range(6))
def test_r1_a_scheduler_that_dies_between_steps_ends_where_one_that_lives_ends(seed):
    """The same jobs finish, with the same work done: a crash costs time, never a job."""
    calm = run("elastic-fifo", seed)
    crashing = run("elastic-fifo", seed, faults=Faults(crashes_mid_plan=0.2))
    every_job_finished(crashing)
    assert [record.id for record in crashing.records] == [record.id for record in calm.records]


@pytest.mark.parametrize("seed", range(4))
def test_lost_nodes_cost_at_most_a_checkpoint_interval_each(seed):
    faults = Faults(node_losses_per_day=60)
    result = run("elastic-fifo", seed, faults=faults, checkpoint_every_s=300.0)
    every_job_finished(result)
    pauses = sum((record.resizes + record.migrations + record.preemptions + 1) * 20 for record in result.records)
    losses = sum(record.preemptions + record.resizes for record in result.records) * 300
    most_gpus = 48
    assert sum(record.lost_s for record in result.records) <= (pauses + losses) * most_gpus


def test_a_drained_node_is_emptied_and_nothing_is_lost():
    events = [NodeEvent(600.0, NodeChange.DRAINED, NodeId("node-000"))]
    result = run("elastic-fifo", 3, node_events=events)
    every_job_finished(result)
    after = [
        segment
        for record in result.records
        for segment in record.segments
        if segment.from_s > 600.0 and "node-000" in segment.nodes
    ]
    assert after == []


def test_an_added_node_is_used():
    newcomer = uniform_nodes(7, 8)[6]
    events = [NodeEvent(60.0, NodeChange.ADDED, newcomer.id, newcomer)]
    result = run("elastic-fifo", 4, node_events=events)
    assert any(newcomer.id in segment.nodes for record in result.records for segment in record.segments)


def test_serving_pods_get_their_room_from_training():
    """The cluster is full; a serving pod comes, waits for room, gets it, and training goes on around it."""
    pod = ServingPod("web", 900.0, 1800.0, Resources(1000, 1 << 30, 8000))
    bound: list[float] = []

    chosen = policy("elastic-fifo")
    rows = generate(40, "bursty", rate_per_hour=120, seed=5)

    def look(view: Snapshot) -> None:
        require_nothing_overfull(view)
        if any(guest.id == "web" for node in view.nodes for guest in node.guests):
            bound.append(view.now_s)

    setup = Simulation(
        nodes=uniform_nodes(3, 8),
        jobs=make_jobs(rows, performance_model("amdahl")).jobs,
        size=chosen,
        place=placement(chosen.placement),
        serving=[pod],
    )
    every_job_finished(simulate(setup, observer=look))
    assert bound
    assert bound[0] >= 900.0
    assert bound[-1] <= 900.0 + 1800.0


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_that_can_never_run_ends_the_simulation_and_is_reported(name):
    from sterna.engines.simulator.models.paced import PacedTraining
    from sterna.engines.simulator.training import SimulatedJob
    from sterna.model.curves import SpeedupCurve
    from sterna.model.ids import JobId
    from sterna.model.jobs import JobSpec

    def rigid(job_id: str, workers: int) -> SimulatedJob:
        spec = JobSpec(
            id=JobId(job_id), submitted_s=0.0, request=Resources(gpu_milli=1000), workers_min=workers,
            workers_max=workers, workers_initial=workers,
        )  # fmt: skip
        return SimulatedJob(spec, PacedTraining(60.0, SpeedupCurve.flat()))

    chosen = policy(name)
    setup = Simulation(
        nodes=uniform_nodes(2, 4),
        jobs=[rigid("endless", 9), rigid("fine", 2)],
        size=chosen,
        place=placement(chosen.placement),
        faults=Faults(node_losses_per_day=1),
    )
    records = {record.id: record for record in simulate(setup).records}
    assert records["fine"].finished_s is not None
    assert "never started" in records["endless"].refused


def test_a_simulation_repeats_itself():
    first = run("afs-l", 11, faults=BAD_WEEK)
    second = run("afs-l", 11, faults=BAD_WEEK)
    assert first.records == second.records
