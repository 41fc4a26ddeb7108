"""Row S1: work is conserved. Whatever policy and placement, nobody gets time or GPUs that were not there."""

import pytest

from sterna.compose.simulation import run_simulation
from sterna.compose.simulation_requests import (
    ClusterRequest,
    CostsRequest,
    ModelRequest,
    RulesRequest,
    SimulationRequest,
    TraceRequest,
)
from sterna.engines.simulator.results import SimulationResult
from sterna.policies.registry import ENTRIES

GPUS = 32


def run(name: str, *, nodes: int = 4, costs_s: float = 0.0, model: str | None = None) -> SimulationResult:
    request = SimulationRequest(
        trace=TraceRequest(generate="poisson", jobs=60),
        cluster=ClusterRequest(nodes=nodes, gpus_per_node=8),
        model=ModelRequest(name=model),
        rules=RulesRequest(policy=name),
        costs=CostsRequest(start_s=costs_s, rescale_s=costs_s, migrate_s=costs_s),
        seed=2,
    )
    return run_simulation(request).result


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_s1_no_gpu_is_used_twice_and_no_second_is_made_up(name):
    result = run(name, costs_s=30.0)
    assert all(record.finished_s is not None for record in result.records)
    assert all(0 <= sample.gpus_used <= GPUS for sample in result.samples)
    used = sum(record.gpu_s for record in result.records)
    assert used <= GPUS * result.makespan_s
    assert used == pytest.approx(result.utilisation() * GPUS * result.makespan_s, rel=1e-6)
    for record in result.records:
        assert record.first_started_s is not None
        assert record.finished_s is not None
        assert record.waited_s is not None
        assert record.finished_s >= record.first_started_s >= record.submitted_s
        assert record.waited_s >= -1e-6
        held = sum(segment.workers * (segment.to_s - segment.from_s) for segment in record.segments)
        assert held == pytest.approx(record.gpu_s, rel=1e-6)


@pytest.mark.parametrize("name", ["fifo", "elastic-fifo", "afs-l"])
def test_s1_no_job_is_faster_than_it_could_be_alone(name):
    shared = run(name)
    alone = run("max-min", nodes=400)
    best = {record.id: record.jct_s for record in alone.records}
    for record in shared.records:
        assert record.jct_s is not None
        assert record.jct_s >= (best[record.id] or 0.0) - 1e-6


def test_s1_work_done_is_the_same_however_often_a_job_is_moved():
    """GPU-seconds of rigid jobs do not depend on the policy when changes are free."""
    work = {name: {r.id: r.gpu_s for r in run(name, model="fixed").records} for name in ("fifo", "srtf", "las")}
    for job_id, gpu_s in work["fifo"].items():
        assert work["srtf"][job_id] == pytest.approx(gpu_s)
        assert work["las"][job_id] == pytest.approx(gpu_s)
