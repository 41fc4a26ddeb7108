"""The oracle itself: against worlds whose answer is plain to see, and against brute force on tiny ones."""

import itertools
import random
from typing import Any

import pytest

from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.nodes import Device, Guest, Node, Taint, Toleration
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from tests.oracle.search import (
    can_start_beside,
    can_start_with_others_at_minimum,
    in_the_way,
    joint_minimums_fit,
    pools_for,
)
from tests.worlds import GIB, cluster, job, node


def asking(name: str, request: Resources, count: int = 1, **spec: object) -> Job:
    sizes = {"workers_min": count, "workers_max": count, "workers_initial": count, **spec}
    return Job(spec=JobSpec(id=JobId(name), submitted_s=0.0, request=request, **sizes))  # type: ignore[arg-type]


def with_cards(name: str, *gib: int, cpus: int = 64, **more: object) -> Node:
    devices = tuple(Device(DeviceId(str(number)), size * GIB) for number, size in enumerate(gib))
    room = Resources(cpus * 1000, 64 * GIB, 1000 * len(gib))
    return Node(id=NodeId(name), allocatable=room, devices=devices, accelerator="gpu", **more)  # type: ignore[arg-type]


MIXED = [node("c1", cpus=64), node("a1", gpus=2, accelerator="a100"), node("a2", gpus=2, accelerator="a100")]


@pytest.mark.parametrize(
    ("nodes", "one", "fits"),
    [
        pytest.param(MIXED, job("x", needs=4), True, id="four GPUs are on two nodes of one pool"),
        pytest.param(MIXED, job("x", needs=1, gpus_each=3), False, id="no node has three GPUs"),
        pytest.param(MIXED, job("x", needs=5), False, id="five GPUs are not there"),
        pytest.param(
            [node("a1", gpus=2, accelerator="a100"), node("t1", gpus=2, accelerator="t4")],
            job("x", needs=4),
            False,
            id="a job does not span two pools",
        ),
        pytest.param(
            [with_cards("n", 8, 16)],
            asking("x", Resources(gpu_milli=250, gpu_bytes=12 * GIB)),
            True,
            id="the second card has the memory",
        ),
        pytest.param(
            [with_cards("n", 16)],
            asking("x", Resources(gpu_milli=250, gpu_bytes=12 * GIB), 2),
            False,
            id="two shares of 12 GiB need two cards of 16 GiB",
        ),
        pytest.param(
            [node("n", cpus=6)],
            job("x", needs=1, gpus_each=0, cpus_each=4, ps=1, ps_cpus=4),
            False,
            id="worker and ps each fit, together they do not",
        ),
        pytest.param(
            [node("n", cpus=6), node("m", cpus=4)],
            job("x", needs=1, gpus_each=0, cpus_each=4, ps=1, ps_cpus=4),
            True,
            id="worker and ps go to two nodes",
        ),
        pytest.param(
            [with_cards("n", 8, taints=(Taint("team"),))],
            asking("x", Resources(gpu_milli=1000)),
            False,
            id="nobody tolerates the taint",
        ),
        pytest.param(
            [with_cards("n", 8, taints=(Taint("team"),))],
            asking("x", Resources(gpu_milli=1000), tolerations=(Toleration("team"),)),
            True,
            id="somebody tolerates the taint",
        ),
        pytest.param([with_cards("n", 8, cordoned=True)], job("x", needs=1), False, id="the only node is cordoned"),
        pytest.param(
            [with_cards("n", 8, labels=(("zone", "a"),)), with_cards("m", 8, 8, labels=(("zone", "b"),))],
            asking("x", Resources(gpu_milli=1000), 2, selector=(("zone", "a"),)),
            False,
            id="the zone that it selects has one card",
        ),
        pytest.param(
            [with_cards("n", 8, 16, guests=(Guest("g", Resources(gpu_milli=1000), devices=(DeviceId("1"),)),))],
            asking("x", Resources(gpu_milli=250, gpu_bytes=12 * GIB)),
            False,
            id="a guest has the large card",
        ),
    ],
)
def test_what_can_start_alone(nodes, one, fits):
    view = cluster(nodes=nodes, jobs=[one])
    assert (in_the_way(view, view.jobs[0]) is None) is fits
    assert can_start_beside(view, view.jobs[0]) is fits
    assert joint_minimums_fit(view) is fits


def test_whole_cards_may_be_taken_where_their_memory_is_not_missed():
    both = [
        asking("share", Resources(gpu_milli=500, gpu_bytes=12 * GIB)),
        asking("whole", Resources(gpu_milli=1000)),
    ]
    assert joint_minimums_fit(cluster(nodes=[with_cards("n", 8, 16)], jobs=both))
    assert not joint_minimums_fit(cluster(nodes=[with_cards("n", 8, 8)], jobs=both))


def test_a_job_starts_beside_others_only_if_they_leave_room():
    grown = job("grown", at_least=1, at_most=4, on=["n1"] * 4)
    view = cluster(gpus=4, jobs=[grown, job("new", needs=2)])
    new = view.by_id[JobId("new")]
    assert not can_start_beside(view, new)
    assert can_start_with_others_at_minimum(view, new)
    assert joint_minimums_fit(view)


def test_which_workers_stay_is_free_to_choose_but_not_the_first_one():
    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    held = [Worker(Role.WORKER, number, NodeId(at)) for number, at in enumerate(["n1", "n2", "n2"])]
    grown = job("grown", at_least=2, at_most=3, holds=held)
    beside = job("beside", needs=1, on=["n1"])
    view = cluster(nodes=nodes, jobs=[grown, beside, job("pair", needs=1, gpus_each=2)])
    assert not can_start_with_others_at_minimum(view, view.by_id[JobId("pair")]), "one of two must stay on n2"
    alone = cluster(nodes=nodes, jobs=[job("grown", at_least=1, at_most=3, holds=held), beside, view.jobs[-1]])
    assert can_start_with_others_at_minimum(alone, alone.by_id[JobId("pair")])


def test_jobs_without_gpus_take_at_most_their_share_of_a_gpu_node():
    view = cluster(nodes=[node("g", gpus=1, cpus=8)], jobs=[job("x", needs=5, gpus_each=0, cpus_each=1)])
    assert in_the_way(view, view.jobs[0], idle_cpu_share=0.5)
    assert not in_the_way(view, view.jobs[0], idle_cpu_share=0.75)


def test_the_search_agrees_with_brute_force_on_tiny_worlds():
    """Every assignment of every worker to every node and cards, checked by sums; 600 worlds, both answers common."""
    answers = {True: 0, False: 0}
    for seed in range(600):
        view = tiny_world(random.Random(seed))
        answer = joint_minimums_fit(view)
        assert answer is brute_force(view, view.jobs), f"seed {seed}"
        for each in view.jobs:
            assert (in_the_way(view, each) is None) is brute_force(view, (each,)), f"seed {seed}: {each.id}"
        answers[answer] += 1
    assert min(answers.values()) > 100, answers


def tiny_world(chance: random.Random) -> Snapshot:
    nodes = []
    for number in range(chance.randint(1, 2)):
        cards = tuple(
            Device(DeviceId(str(each)), chance.choice([0, 8, 16]) * GIB) for each in range(chance.randrange(3))
        )
        room = Resources(chance.choice([2, 4, 6]) * 1000, chance.choice([2, 8]) * GIB, 1000 * len(cards))
        accelerator = chance.choice(["a", "a", "b"]) if cards else ""
        nodes.append(Node(id=NodeId(f"n{number}"), allocatable=room, devices=cards, accelerator=accelerator))
    jobs = []
    for number in range(chance.randint(1, 2)):
        request = chance.choice(
            [
                Resources(1000, GIB, 1000),
                Resources(1000, GIB, 500, chance.choice([0, 6, 12]) * GIB),
                Resources(2000, chance.choice([0, 2]) * GIB),
            ]
        )
        fixed = (FixedRole(Role.PS, 1, Resources(chance.choice([1, 3]) * 1000)),) if chance.random() < 0.4 else ()
        jobs.append(asking(f"j{number}", request, chance.randint(1, 2), fixed=fixed))
    return Snapshot.of(now_s=0.0, nodes=nodes, jobs=jobs)


def brute_force(view: Snapshot, jobs: tuple[Job, ...]) -> bool:
    """Does some assignment of all workers overfill nothing?"""
    choices = [pools_for(view, each.spec) for each in jobs]
    return any(_some_assignment(view, jobs, pools) for pools in itertools.product(*choices))


def _some_assignment(view: Snapshot, jobs: tuple[Job, ...], pools: tuple[list[int], ...]) -> bool:
    workers = [
        (request, pool)
        for each, pool in zip(jobs, pools, strict=True)
        for request, count in [(f.request, f.replicas) for f in each.spec.fixed]
        + [(each.spec.request, each.spec.workers_min)]
        for _ in range(count)
    ]
    places = [[(at, cards) for at in pool for cards in _cards(view.nodes[at], request)] for request, pool in workers]
    return any(_sound(view, workers, chosen) for chosen in itertools.product(*places))


def _cards(one: Node, request: Resources) -> list[tuple[int, ...]]:
    whole = request.gpu_milli // 1000
    return list(itertools.combinations(range(len(one.devices)), 1 if request.shares_gpu else whole))


def _sound(view: Snapshot, workers: list[tuple[Resources, list[int]]], chosen: tuple[Any, ...]) -> bool:
    for at, one in enumerate(view.nodes):
        here = [(request, cards) for (request, _), (where, cards) in zip(workers, chosen, strict=True) if where == at]
        if any(sum(request[each] for request, _ in here) > one.allocatable[each] for each in (0, 1)):
            return False
        for number, device in enumerate(one.devices):
            there = [request for request, cards in here if number in cards]
            if sum(min(1000, request.gpu_milli) for request in there) > 1000:
                return False
            if device.memory_bytes and sum(r.gpu_bytes for r in there if r.shares_gpu) > device.memory_bytes:
                return False
    return True
