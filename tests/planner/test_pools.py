"""Pools: one for each accelerator type, decided apart. And room set aside for who waits too long."""

import pytest
from tests.worlds import cluster, job, node

from sterna.model.errors import InvariantBroken
from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory, Target
from sterna.model.why import Why
from sterna.placement.packed import packed
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import ENTRIES, policy

TWO_TYPES = [node("a1", gpus=4, accelerator="a100"), node("t1", gpus=4, accelerator="t4")]


def on(accelerator: str | None) -> dict[str, object]:
    return {"accelerator": accelerator}


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_voda_31_jobs_of_two_types_never_share_nodes(name):
    jobs = [
        job(f"{kind}-{number}", at_least=1, at_most=4, left=100.0, submitted_s=number, spec=on(kind))
        for kind in ("a100", "t4")
        for number in range(4)
    ]
    chosen = policy(name)
    from sterna.placement.strategies import placement

    decision = decide(cluster(nodes=TWO_TYPES, jobs=jobs, now_s=10), chosen, placement(chosen.placement))
    nodes = {job_id: {worker.node for worker in workers} for job_id, workers in decision.layout.workers.items()}
    assert any(nodes.values())
    for job_id, where in nodes.items():
        assert where <= {"a1" if job_id.startswith("a100") else "t1"}


def test_voda_31_what_happens_in_one_pool_changes_nothing_in_the_other():
    t4 = [job("t-1", at_least=1, at_most=4, spec=on("t4")), job("t-2", at_least=1, at_most=4, spec=on("t4"))]
    alone = decide(cluster(nodes=TWO_TYPES, jobs=t4), policy("elastic-fifo"), packed)
    crowd = [job(f"a-{number}", at_least=1, at_most=4, spec=on("a100")) for number in range(9)]
    beside = decide(cluster(nodes=TWO_TYPES, jobs=[*t4, *crowd]), policy("elastic-fifo"), packed)
    for name in ("t-1", "t-2"):
        assert beside.layout.workers_of(JobId(name)) == alone.layout.workers_of(JobId(name))


def test_voda_31_each_pool_remembers_for_itself():
    jobs = [
        job("a", at_least=1, at_most=4, on=["a1"], spec=on("a100")),
        job("t", at_least=1, at_most=4, spec=on("t4")),
    ]
    memory = PolicyMemory(values={"a100/last_action_s": 0.0, "t4/last_action_s": 50.0})
    from sterna.placement.dragon import dragon as place

    decision = decide(cluster(nodes=TWO_TYPES, jobs=jobs, now_s=60, memory=memory), policy("dragon"), place)
    assert len(decision.layout.workers_of(JobId("a"))) == 4, "its pool has been idle for a minute"
    assert decision.memory.values["t4/last_action_s"] == 60


def test_a_job_that_takes_any_accelerator_goes_where_most_room_is():
    nodes = [node("a1", gpus=2, accelerator="a100"), node("t1", gpus=8, accelerator="t4")]
    decision = decide(cluster(nodes=nodes, jobs=[job("x", needs=2)]), policy("fifo"), packed)
    assert {worker.node for worker in decision.layout.workers_of(JobId("x"))} == {"t1"}


def test_a_job_without_gpus_leaves_the_gpu_nodes_alone():
    nodes = [node("c1", cpus=8), node("g1", gpus=8)]
    decision = decide(cluster(nodes=nodes, jobs=[job("x", needs=2, gpus_each=0, cpus_each=1)]), policy("fifo"), packed)
    assert {worker.node for worker in decision.layout.workers_of(JobId("x"))} == {"c1"}


def test_a_job_that_names_an_accelerator_nobody_has_is_told_so():
    decision = decide(cluster(nodes=TWO_TYPES, jobs=[job("x", needs=1, spec=on("tpu"))]), policy("fifo"), packed)
    assert decision.because_of(JobId("x")).why is Why.NEVER_FITS


def test_a_gpu_job_on_a_cluster_without_gpus_is_told_so():
    decision = decide(cluster(nodes=[node("c1", cpus=8)], jobs=[job("x", needs=1)]), policy("fifo"), packed)
    assert decision.layout.workers_of(JobId("x")) == ()
    assert decision.because_of(JobId("x")).why is Why.NEVER_FITS


class TestReservations:
    """Room set aside, so that small jobs cannot starve a large one."""

    NODES = (node("n1", gpus=4), node("n2", gpus=4))

    def world(self, *, now_s: float) -> Snapshot:
        jobs = [
            job("small-1", needs=2, left=10.0, on=["n1"] * 2),
            job("large", needs=4, left=500.0, submitted_s=1, at_least=4),
            job("small-2", needs=4, left=10.0, on=["n2"] * 4),
            job("small-3", needs=2, left=5.0, submitted_s=2),
        ]
        return cluster(nodes=self.NODES, jobs=jobs, now_s=now_s)

    def test_before_it_starves_others_may_pass(self):
        decision = decide(self.world(now_s=50), policy("srjf"), packed, Settings(starving_after_s=600))
        assert decision.layout.workers_of(JobId("small-3"))

    def test_once_it_starves_nodes_are_kept_for_it(self):
        decision = decide(self.world(now_s=1000), policy("srjf"), packed, Settings(starving_after_s=600))
        assert not decision.layout.workers_of(JobId("small-3"))
        assert decision.layout.workers_of(JobId("small-1")), "whoever runs there may finish"

    def test_it_starts_when_they_are_empty(self):
        jobs = [
            job("large", needs=4, left=500.0, submitted_s=1),
            job("small-2", needs=4, left=10.0, on=["n2"] * 4),
            job("small-3", needs=2, left=5.0, submitted_s=2),
        ]
        view = cluster(nodes=self.NODES, jobs=jobs, now_s=1000)
        decision = decide(view, policy("srjf"), packed, Settings(starving_after_s=600))
        assert {worker.node for worker in decision.layout.workers_of(JobId("large"))} == {"n1"}


def test_dragon_50_a_thousand_nodes_and_jobs_are_one_decision():
    nodes = [node(f"n{number:04}", gpus=8) for number in range(1000)]
    jobs = [job(f"j{number:04}", at_least=1, at_most=16, left=100.0 + number) for number in range(1000)]
    view = cluster(nodes=nodes, jobs=jobs, now_s=10)
    decision = decide(view, policy("afs-l"), packed)
    assert sum(len(workers) for workers in decision.layout.workers.values()) == 8000
    assert decide(view, policy("afs-l"), packed) == decision


def test_a_policy_that_decides_about_a_job_nobody_has_breaks_a_promise():
    from sterna.model.plan import Grow, Step
    from sterna.planner.invariants import require_sound

    view = cluster(gpus=4, jobs=[job("a", needs=1)])
    step = Step((Grow(JobId("ghost"), (), Target({}).otherwise),), after_release=False)
    with pytest.raises(InvariantBroken, match="ghost"):
        require_sound(view, (step,), counted=False)
