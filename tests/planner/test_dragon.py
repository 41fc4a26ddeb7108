"""DRAGON through the whole core: policy, placement and planner, on small clusters with CPUs only."""

import pytest
from tests.worlds import cluster, job, node

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.nodes import Node
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.model.why import Why
from sterna.placement.dragon import dragon as place_dragon
from sterna.placement.dragon import dragon_balanced, dragon_prototype
from sterna.planner.decide import decide
from sterna.policies.dragon import DragonOptions, Variant, dragon

PLACES = {Variant.BALANCED: dragon_balanced, Variant.PROTOTYPE: dragon_prototype}


def decided(view: Snapshot, variant: Variant = Variant.DRAGON) -> Decision:
    options = DragonOptions(variant=variant)
    return decide(view, lambda view: dragon(view, options), PLACES.get(variant, place_dragon))


def sizes(decision: Decision) -> dict[str, int]:
    """Elastic workers each job holds afterwards; jobs with none are left out."""
    return {
        job_id: sum(worker.role is Role.WORKER for worker in workers)
        for job_id, workers in decision.layout.workers.items()
        if workers
    }


def places(decision: Decision, job_id: str) -> list[str]:
    """Where the job's elastic workers are, by ordinal."""
    workers = decision.layout.workers[JobId(job_id)]
    return [worker.node for worker in workers if worker.role is Role.WORKER]


def slots(name: str, count: int) -> Node:
    return node(name, cpus=count)


def cpu_job(name: str, **more: object) -> Job:
    """A job whose workers take one CPU each."""
    return job(name, gpus_each=0, cpus_each=1, **more)  # type: ignore[arg-type]


def with_ps(name: str, on: dict[str, list[int | str]], **more: object) -> Job:
    """A running job given as {node: ["ps", 0, 1]}: its parameter server and the ordinals of its workers."""
    workers = [
        Worker(Role.PS, 0, NodeId(place)) if who == "ps" else Worker(Role.WORKER, int(who), NodeId(place))
        for place, here in on.items()
        for who in here
    ]
    workers.sort(key=lambda worker: (worker.role is Role.WORKER, worker.ordinal))
    return job(name, gpus_each=0, cpus_each=1, ps=1, ps_cpus=1, holds=workers, **more)  # type: ignore[arg-type]


IDLE = PolicyMemory(last_action_s=0.0)


def test_dragon_16_jobs_that_do_not_fit_are_skipped_and_the_others_keep_their_order():
    jobs = [cpu_job("a-big", needs=9), cpu_job("b", needs=1, submitted_s=1), cpu_job("c", needs=1, submitted_s=2)]
    decision = decided(cluster(nodes=[slots("n1", 4), slots("n2", 4)], jobs=jobs, now_s=5))
    assert sizes(decision) == {"b": 1, "c": 1}
    (step,) = decision.steps
    assert [action.job_id for action in step.actions] == ["b", "c"]


def test_dragon_17_a_job_starts_with_what_fits_if_that_is_its_minimum_or_more():
    waiting = job("a", gpus_each=0, cpus_each=1, at_least=1, at_most=4, initial=4, ps=1, ps_cpus=1)
    decision = decided(cluster(nodes=[slots("n1", 3)], jobs=[waiting]))
    workers = decision.layout.workers[JobId("a")]
    assert [(worker.role, worker.ordinal) for worker in workers] == [(Role.PS, 0), (Role.WORKER, 0), (Role.WORKER, 1)]


@pytest.mark.parametrize(
    ("waited_s", "expected"),
    [
        pytest.param(29.9, {"a": 4}, id="after 29.9 s nobody gives anything up"),
        pytest.param(30.0, {"a": 3, "b": 1}, id="after 30.0 s room is made"),
    ],
)
def test_dragon_18_room_is_made_for_a_job_that_waited_thirty_seconds(waited_s, expected):
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 4)
    waiting = cpu_job("b", needs=1, submitted_s=100)
    decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[running, waiting], now_s=100 + waited_s, memory=IDLE))
    assert sizes(decision) == expected


def test_dragon_18_the_victim_goes_before_the_job_comes():
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 4)
    waiting = cpu_job("b", needs=1, submitted_s=0)
    shrink, grow = decided(cluster(nodes=[slots("n1", 4)], jobs=[running, waiting], now_s=30)).steps
    assert [action.job_id for action in shrink.actions] == ["a"]
    assert [action.job_id for action in grow.actions] == ["b"]
    assert grow.after_release


def test_dragon_19_nobody_is_shrunk_for_a_job_whose_parameter_server_fits_nowhere():
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 4)
    waiting = job("b", gpus_each=0, cpus_each=1, needs=1, ps=1, ps_cpus=4)
    decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[running, waiting], now_s=60, memory=IDLE))
    assert sizes(decision) == {"a": 4}
    assert not decision.steps


def test_dragon_20_one_need_takes_one_worker_however_long_it_takes_to_leave():
    """At 30 s one worker is told to go; in every cycle of its 30 s of grace nobody else is."""
    leaving = (Worker(Role.WORKER, 3, NodeId("n1")),)
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 3, leaving=leaving)
    waiting = cpu_job("b", needs=1, submitted_s=0)
    for second in range(30, 61):
        decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[running, waiting], now_s=second, memory=IDLE))
        assert sizes(decision) == {"a": 3, "b": 1}
        (grow,) = decision.steps
        assert grow.after_release, "its room is still taken"


def test_dragon_21_a_job_that_can_never_start_gets_a_verdict_and_blocks_nobody():
    endless = cpu_job("a", needs=1, spec={"selector": (("zone", "moon"),)})
    small = cpu_job("b", needs=1, submitted_s=50)
    decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[endless, small], now_s=100, memory=IDLE))
    assert sizes(decision) == {"b": 1}
    assert decision.because_of(JobId("a")).why is Why.NEVER_FITS


def test_dragon_21_the_verdict_says_which_resource_is_short():
    decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[cpu_job("a", needs=9)], now_s=100))
    assert "cpus in all 9" in decision.because_of(JobId("a")).sentence


def test_dragon_21_a_job_that_could_start_later_is_not_overtaken_once_it_is_overdue():
    running = cpu_job("a", needs=2, on=["n1"] * 2)
    head = cpu_job("b", needs=4, submitted_s=0)
    small = cpu_job("c", needs=1, submitted_s=50)
    decision = decided(cluster(nodes=[slots("n1", 4)], jobs=[running, head, small], now_s=60, memory=IDLE))
    assert sizes(decision) == {"a": 2}
    assert decision.because_of(JobId("c")).why is Why.RESERVED


@pytest.mark.parametrize(
    ("needs", "left"),
    [
        pytest.param(2, [0, 1], id="two: the lonely ones away from the parameter server"),
        pytest.param(3, [0], id="three: then one beside it, never worker 0"),
    ],
)
def test_dragon_22_lonely_workers_go_first_and_worker_0_never(needs, left):
    running = with_ps("a", {"A": ["ps", 0, 1], "B": [2, 3]}, at_least=1, at_most=4)
    waiting = cpu_job("b", needs=needs, submitted_s=0)
    decision = decided(cluster(nodes=[slots("A", 3), slots("B", 2)], jobs=[running, waiting], now_s=30, memory=IDLE))
    workers = decision.layout.workers[JobId("a")]
    assert [worker.ordinal for worker in workers if worker.role is Role.WORKER] == left
    assert any(worker.role is Role.PS for worker in workers)


def test_dragon_22_the_oldest_job_gives_first_and_never_below_its_minimum():
    old = cpu_job("a", at_least=2, at_most=3, on=["n1"] * 3, started_s=0.0)
    young = cpu_job("b", at_least=1, at_most=3, on=["n1"] * 3, started_s=5.0)
    waiting = cpu_job("c", needs=2, submitted_s=0)
    decision = decided(cluster(nodes=[slots("n1", 6)], jobs=[old, young, waiting], now_s=30, memory=IDLE))
    assert sizes(decision) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("idle_s", "expected"),
    [pytest.param(59.9, 1, id="59.9 s are too short"), pytest.param(60.0, 4, id="60.0 s are enough")],
)
def test_dragon_23_jobs_grow_after_a_minute_without_any_change(idle_s, expected):
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"])
    view = cluster(nodes=[slots("n1", 4)], jobs=[running], now_s=100 + idle_s, memory=PolicyMemory(last_action_s=100))
    assert sizes(decided(view)) == {"a": expected}


def test_dragon_23_a_try_that_changes_nothing_also_starts_the_minute_anew():
    running = cpu_job("a", at_least=1, at_most=4, on=["n1"])
    full = cluster(nodes=[slots("n1", 1)], jobs=[running], now_s=60, memory=IDLE)
    decision = decided(full)
    assert not decision.steps
    assert decision.memory.last_action_s == 60
    assert decision.wake_s == 120


def test_dragon_24_a_job_never_grows_past_its_maximum_and_fills_its_parameter_servers_node_first():
    running = with_ps("a", {"A": ["ps", 0]}, at_least=1, at_most=3)
    decision = decided(cluster(nodes=[slots("A", 3), slots("B", 3)], jobs=[running], now_s=60, memory=IDLE))
    assert places(decision, "a") == ["A", "A", "B"]


def test_dragon_24_growing_across_nodes_stops_at_the_maximum():
    running = cpu_job("a", at_least=1, at_most=3, on=["A"])
    decision = decided(cluster(nodes=[slots("A", 2), slots("B", 3)], jobs=[running], now_s=60, memory=IDLE))
    assert sizes(decision) == {"a": 3}


def test_dragon_24_greedy_growth_serves_the_oldest_first_and_balanced_growth_the_smallest():
    jobs = [
        cpu_job("a", at_least=1, at_most=8, on=["n1"] * 3, started_s=0.0),
        cpu_job("b", at_least=1, at_most=8, on=["n1"], started_s=1.0),
    ]
    view = cluster(nodes=[slots("n1", 8)], jobs=jobs, now_s=60, memory=IDLE)
    assert sizes(decided(view)) == {"a": 7, "b": 1}
    assert sizes(decided(view, Variant.BALANCED)) == {"a": 4, "b": 4}


class TestVariants:
    """Row 51: the ordering rules of DRAGON's forks and of the paper's prototype."""

    def test_dragon_51_erudite_serves_by_priority_and_then_the_larger_request(self):
        jobs = [
            cpu_job("a", needs=1, spec={"priority": 1}),
            cpu_job("b", needs=2, spec={"priority": 1}),
            cpu_job("c", needs=2, spec={"priority": 5}, submitted_s=9),
        ]
        decision = decided(cluster(nodes=[slots("n1", 4)], jobs=jobs, now_s=10), Variant.ERUDITE)
        assert sizes(decision) == {"b": 2, "c": 2}

    def test_dragon_51_erudite_makes_room_at_once_for_a_priority_above_all_that_run(self):
        running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 4, spec={"priority": 1})
        view = cluster(nodes=[slots("n1", 4)], jobs=[running, cpu_job("b", needs=2, spec={"priority": 2})])
        assert sizes(decided(view, Variant.ERUDITE)) == {"a": 2, "b": 2}
        equal = cluster(nodes=[slots("n1", 4)], jobs=[running, cpu_job("b", needs=2, spec={"priority": 1})])
        assert sizes(decided(equal, Variant.ERUDITE)) == {"a": 4}

    def test_dragon_51_balancing_takes_from_the_largest_job_for_all_that_was_asked(self):
        jobs = [
            cpu_job("a", at_least=1, at_most=4, on=["n1"] * 2, started_s=0.0),
            cpu_job("b", at_least=1, at_most=4, on=["n1"] * 4, started_s=1.0),
            cpu_job("c", at_least=1, at_most=2, initial=2, submitted_s=0),
        ]
        view = cluster(nodes=[slots("n1", 6)], jobs=jobs, now_s=30, memory=IDLE)
        assert sizes(decided(view, Variant.BALANCED)) == {"a": 2, "b": 2, "c": 2}

    def test_dragon_51_the_prototype_waits_two_minutes_and_helps_the_smallest_minimum_first(self):
        running = cpu_job("a", at_least=1, at_most=4, on=["n1"] * 4)
        jobs = [running, cpu_job("b", needs=3, submitted_s=0), cpu_job("c", needs=2, submitted_s=1)]
        soon = cluster(nodes=[slots("n1", 4)], jobs=jobs, now_s=100, memory=IDLE)
        assert sizes(decided(soon, Variant.PROTOTYPE)) == {"a": 4}
        later = cluster(nodes=[slots("n1", 4)], jobs=jobs, now_s=130, memory=IDLE)
        assert sizes(decided(later, Variant.PROTOTYPE)) == {"a": 2, "c": 2}

    def test_dragon_51_the_prototype_grows_only_beside_the_parameter_server(self):
        running = with_ps("a", {"A": ["ps", 0]}, at_least=1, at_most=5)
        view = cluster(nodes=[slots("A", 3), slots("B", 9)], jobs=[running], now_s=60, memory=IDLE)
        assert places(decided(view, Variant.PROTOTYPE), "a") == ["A", "A"]
