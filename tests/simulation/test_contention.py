"""CPU that containers share: a job's pace depends on who is beside it, from the very moment somebody comes or goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.compose.simulation import run_simulation
from sterna.compose.simulation_requests import (
    ClusterRequest,
    ModelRequest,
    RulesRequest,
    SimulationRequest,
    TraceRequest,
)
from sterna.engines.simulator.contention import Appetite, SharedCpu
from sterna.engines.simulator.misfortune import Costs, Faults
from sterna.engines.simulator.models.catalogue import make_jobs, performance_model
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.specon import specon_jobs
from sterna.model.happenings import NodeChange, NodeEvent
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.nodes import Cluster
from sterna.model.resources import NOTHING
from sterna.model.trace import TraceRow
from sterna.placement.strategies import placement
from sterna.policies.registry import ENTRIES, policy
from sterna.wire.traces.clusters import uniform_nodes


def row(number, *, at_s=0.0, alone_s, cpus):
    return TraceRow(
        id=JobId(f"job-{number:06}"),
        line=0,
        submitted_s=at_s,
        workers=1,
        gpu_milli=0,
        duration_s=alone_s,
        cpu_demand_milli=int(cpus * 1000),
    )


def finishes(rows, *, nodes=1, cpus=8, **more):
    jobs = make_jobs(rows, performance_model("fixed")).jobs
    setup = Simulation(
        nodes=uniform_nodes(nodes, 0, cpus_per_node=cpus),
        jobs=jobs,
        size=policy("fifo", {}),
        place=placement("spread"),
        shares_cpu=True,
        **more,
    )
    return [record.finished_s for record in simulate(setup).records]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([row(0, alone_s=100, cpus=8)], [100.0], id="alone a job takes its time"),
        pytest.param(
            [row(0, alone_s=100, cpus=8), row(1, alone_s=100, cpus=8)], [200.0, 200.0], id="two that want all share it"
        ),
        pytest.param(
            [row(0, alone_s=100, cpus=2), row(1, alone_s=100, cpus=6)],
            [100.0, 100.0],
            id="where there is enough for both nobody waits",
        ),
        pytest.param(
            [row(0, alone_s=100, cpus=1), row(1, alone_s=100, cpus=8)],
            [100.0, 100 + 12.5],
            id="who wants little gets it; the other has the rest, and all of it once the first is gone",
        ),
        pytest.param(
            [row(0, alone_s=100, cpus=8), row(1, at_s=50.0, alone_s=25, cpus=8)],
            [125.0, 100.0],
            id="a job that comes slows the one that runs from that moment on, until it is gone",
        ),
        pytest.param(
            [row(0, alone_s=50, cpus=0), row(1, alone_s=100, cpus=8)],
            [50.0, 100.0],
            id="a job that says nothing of CPU is in nobody's way",
        ),
    ],
)
def test_a_jobs_pace_is_what_its_neighbours_leave(rows, expected):
    assert finishes(rows) == pytest.approx(expected)


def test_a_node_that_is_lost_makes_its_work_crowd_the_other():
    rows = [row(0, alone_s=100, cpus=8), row(1, alone_s=100, cpus=8)]
    lost = NodeEvent(50.0, NodeChange.LOST, NodeId("node-001"))
    done = finishes(rows, nodes=2, node_events=[lost], checkpoint_every_s=0.0)
    assert done == pytest.approx([150.0, 150.0])


def test_a_pause_is_not_stretched_by_neighbours_and_holds_the_cpu():
    done = finishes([row(0, alone_s=100, cpus=8), row(1, alone_s=100, cpus=8)], costs=Costs(start_s=10.0))
    assert done == pytest.approx([210.0, 210.0])


@settings(max_examples=30, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.floats(0, 300), st.floats(1, 200), st.sampled_from([0.5, 1, 2, 4, 8])), min_size=1, max_size=12
    ),
    nodes=st.integers(1, 3),
)
def test_no_cpu_is_used_twice_and_nobody_is_faster_than_alone(jobs, nodes):
    rows = [row(n, at_s=at_s, alone_s=alone_s, cpus=cpus) for n, (at_s, alone_s, cpus) in enumerate(jobs)]
    done = dict(zip(range(len(rows)), _by_number(rows, nodes), strict=True))
    for number, (at_s, alone_s, _) in enumerate(jobs):
        assert done[number] >= at_s + alone_s - 1e-6
    work = sum(alone_s * cpus for _, alone_s, cpus in jobs)
    assert max(done.values()) - min(at_s for at_s, _, _ in jobs) >= work / (8 * nodes) - 1e-6


def _by_number(rows, nodes):
    jobs = make_jobs(rows, performance_model("fixed")).jobs
    setup = Simulation(
        nodes=uniform_nodes(nodes, 0, cpus_per_node=8),
        jobs=jobs,
        size=policy("fifo", {}),
        place=placement("spread"),
        shares_cpu=True,
    )
    ends = {record.id: record.finished_s for record in simulate(setup).records}
    return [ends[one.id] for one in rows]


@pytest.mark.parametrize("seed", range(4))
def test_bad_luck_and_contention_together_still_finish_every_job(seed):
    jobs = make_jobs(specon_jobs(jobs=20, seed=seed), performance_model("fixed")).jobs
    setup = Simulation(
        nodes=uniform_nodes(3, 0, cpus_per_node=8),
        jobs=jobs,
        size=policy("fifo", {}),
        place=placement("spread"),
        shares_cpu=True,
        faults=Faults(node_losses_per_day=200, lost_wakes=0.05, crashes_mid_plan=0.05),
        seed=seed,
    )
    assert all(record.finished_s is not None for record in simulate(setup).records)


def test_without_contention_neighbours_do_not_matter():
    request = SimulationRequest(
        trace=TraceRequest(generate="specon", jobs=50),
        cluster=ClusterRequest(nodes=4, gpus_per_node=0),
        model=ModelRequest(name="fixed"),
        rules=RulesRequest(policy="fifo"),
        seed=1,
    )
    records = run_simulation(request).result.records
    alone = {row.id: row.duration_s for row in specon_jobs(seed=1)}
    assert all(record.jct_s == pytest.approx(alone[JobId(record.id)]) for record in records)


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_jobs_that_request_nothing_run_under_every_policy(name):
    """Nothing fits any number of times on any node: no policy may divide by it, and none may leave it waiting."""
    request = SimulationRequest(
        trace=TraceRequest(generate="specon", jobs=12),
        cluster=ClusterRequest(nodes=4, gpus_per_node=0, cpus_per_node=8),
        model=ModelRequest(name="fixed"),
        rules=RulesRequest(policy=name),
        seed=2,
    )
    assert all(record.finished_s is not None for record in run_simulation(request).result.records)


def test_workers_around_a_parameter_server_do_not_wait_for_the_slowest():
    cluster = Cluster.of(uniform_nodes(2, 0, cpus_per_node=4))
    here, there = cluster.nodes[0].id, cluster.nodes[1].id
    workers = (Worker(Role.WORKER, 0, here), Worker(Role.WORKER, 1, there))
    paces = {}
    for name, servers in (("together", 0), ("apart", 1)):
        shared = SharedCpu()
        spec = (
            make_jobs([row(0, alone_s=10, cpus=4)._replace(workers=2, servers=servers)], performance_model("fixed"))
            .jobs[0]
            .spec
        )
        held = (Worker(Role.PS, 0, here), *workers) if servers else workers
        shared.moved(spec, Appetite(4000, 0), held)
        neighbour = JobSpec(id=JobId("other"), submitted_s=0.0, request=NOTHING)
        shared.moved(neighbour, Appetite(4000), (Worker(Role.WORKER, 0, here),))
        paces[name] = shared.share_out(cluster)[spec.id]
    assert paces == pytest.approx({"together": 0.5, "apart": 0.75})
