"""Voda's placement: packing afresh, binding with fewest moves, numbering that stays."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.layout import Layout
from sterna.model.nodes import Guest, Taint
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.model.why import NEXT_IN_ORDER, Because, Why
from sterna.placement.binding import bound
from sterna.placement.frame import frame_of
from sterna.placement.packing import best_fit_decreasing
from sterna.placement.repack import repack, repack_by_lot
from sterna.placement.room import Room
from tests.placement.asking import ask, where, worker
from tests.placement.checking import assert_no_node_is_overfull, moved_workers
from tests.worlds import cluster, job, node


@pytest.mark.parametrize(
    ("gpus", "sizes", "nodes_crossed"),
    [
        pytest.param([4, 4], [8], 2, id="a job as big as the cluster"),
        pytest.param([4, 4], [6, 2], 3, id="the remainder leaves room for another"),
        pytest.param([4, 4, 4], [3, 3, 3, 2, 1], 6, id="the last free GPUs are used"),
        pytest.param([4, 8], [8, 4], 2, id="nodes of unequal size"),
        pytest.param([4, 4], [2, 2, 2, 2], 4, id="small ones side by side"),
        pytest.param([2, 3, 7], [5, 4, 3], 5, id="largest first"),
    ],
)
def test_voda_23_packing_places_everything_that_was_asked_for(gpus, sizes, nodes_crossed):
    jobs = [job(f"j{number}", needs=size) for number, size in enumerate(sizes)]
    view = cluster(nodes=[node(f"n{at}", gpus=count) for at, count in enumerate(gpus)], jobs=jobs)
    room = Room.empty(frame_of(view.cluster))
    grants = {each.id: Grant(size, size, NEXT_IN_ORDER) for each, size in zip(jobs, sizes, strict=True)}
    packing = best_fit_decreasing(room, {each.id: each.spec for each in jobs}, grants)
    assert sum(len(workers) for workers in packing.values()) == sum(sizes)
    assert room.gpus == [0] * len(gpus) if sum(sizes) == sum(gpus) else min(room.gpus) >= 0
    assert sum(len({worker.node for worker in workers}) for workers in packing.values()) == nodes_crossed


def test_voda_24_a_job_grows_into_the_room_beside_it_without_a_migration():
    jobs = [
        job("A", needs=4, on=["n1"] * 4),
        job("B", at_least=1, at_most=4, on=["n2"] * 2),
        job("C", needs=2, on=["n2"] * 2),
    ]
    view = cluster(nodes=[node("n1", gpus=4), node("n2", gpus=4)], jobs=jobs)
    layout = repack(view, ask(A=4, B=4))
    assert where(layout) == {"A": ["n1"] * 4, "B": ["n2"] * 4}
    assert moved_workers(view, layout) == 0


@pytest.mark.parametrize(
    ("gpus", "jobs", "target"),
    [
        pytest.param(
            [4, 8],
            [job("A", at_least=1, at_most=8, on=["n0"] * 4), job("B", needs=4, on=["n1"] * 4)],
            ask(A=8, B=4),
            id="eight workers never land on a node of four",
        ),
        pytest.param(
            [2, 4, 6],
            [job("A", at_least=2, at_most=6, on=["n0"] * 2), job("B", at_least=4, at_most=6, on=["n1"] * 4)],
            ask(A=6, B=6),
            id="each on what it fits",
        ),
    ],
)
def test_voda_24_unequal_nodes_are_never_overfilled(gpus, jobs, target):
    view = cluster(nodes=[node(f"n{at}", gpus=count) for at, count in enumerate(gpus)], jobs=jobs)
    layout = repack(view, target)
    assert_no_node_is_overfull(view, layout)
    assert {job_id: len(workers) for job_id, workers in layout.workers.items()} == target.workers_by_job()


def test_voda_24_a_selector_outweighs_staying_put():
    jobs = [
        job("A", at_least=2, at_most=4, on=["n1"] * 2, spec={"selector": (("disk", "ssd"),)}),
        job("B", needs=3, on=["n2"] * 3),
    ]
    view = cluster(nodes=[node("n1", gpus=4, labels=(("disk", "ssd"),)), node("n2", gpus=4)], jobs=jobs)
    assert where(repack(view, ask(A=4, B=3))) == {"A": ["n1"] * 4, "B": ["n2"] * 3}


def _adopted(view: Snapshot, layout: Layout) -> Snapshot:
    jobs = [each.but(workers=layout.workers_of(each.id)) for each in view.jobs]
    return Snapshot.of(now_s=view.now_s, nodes=view.nodes, jobs=jobs)


def test_voda_25_an_unchanged_request_moves_nobody_in_a_thousand_shuffles():
    sizes = {"A": 7, "B": 5, "C": 3, "D": 2, "E": 2, "F": 1}
    nodes = [node(f"n{at}", gpus=4) for at in range(6)]
    jobs = [job(name, at_least=1, at_most=8) for name in sizes]
    view = cluster(nodes=nodes, jobs=jobs)
    view = _adopted(view, repack(view, ask(**sizes)))
    newcomer = job("Z", needs=1)
    chance = random.Random(7)
    for turn in range(1000):
        order = list(sizes)
        chance.shuffle(order)
        again = ask(**{name: sizes[name] for name in order}, **({"Z": 1} if turn % 2 else {}))
        mixed = Snapshot.of(
            now_s=0.0,
            nodes=chance.sample(nodes, len(nodes)),
            jobs=chance.sample([*view.jobs, newcomer], len(jobs) + 1),
        )
        assert moved_workers(mixed, repack(mixed, again)) == 0


@settings(max_examples=80, deadline=None)
@given(
    gpus=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    before=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    after=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    chance=st.randoms(use_true_random=False),
)
def test_voda_25_no_binding_of_the_packing_moves_fewer(gpus, before, after, chance):
    """Against every permutation of the nodes that is feasible, on small clusters with workers anywhere."""
    nodes = [node(f"n{at}", gpus=count) for at, count in enumerate(gpus)]
    free = [f"n{at}" for at, count in enumerate(gpus) for _ in range(count)]
    chance.shuffle(free)
    jobs: list[Job] = []
    for number, size in enumerate(before):
        places, free = free[:size], free[size:]
        jobs.append(job(f"j{number}", at_least=1, at_most=8, on=places))
    view = cluster(nodes=nodes, jobs=jobs)
    room = Room.empty(frame_of(view.cluster))
    grants = {each.id: Grant(size, 1, NEXT_IN_ORDER) for each, size in zip(jobs, after, strict=False) if size}
    specs = {each.id: each.spec for each in jobs}
    packing = best_fit_decreasing(room.copy(), specs, grants)
    now = {each.id: each.workers for each in jobs}
    binding = bound(room, specs, packing, now)
    used = [sum(w.node == f"n{at}" for workers in packing.values() for w in workers) for at in range(len(gpus))]

    def stays(nodes_of: dict[int, int]) -> int:
        total = 0
        for each in jobs:
            there = [f"n{nodes_of[int(w.node[1:])]}" for w in packing.get(each.id, ())]
            here: list[str] = [w.node for w in each.workers]
            total += sum(min(here.count(name), there.count(name)) for name in set(there))
        return total

    feasible = [
        dict(enumerate(permutation))
        for permutation in itertools.permutations(range(len(gpus)))
        if all(used[copy] <= gpus[real] for copy, real in enumerate(permutation))
    ]
    assert all(used[copy] <= gpus[real] for copy, real in binding.items())
    assert len(set(binding.values())) == len(binding)
    assert stays(binding) == max(stays(permutation) for permutation in feasible)


def test_a_move_says_that_it_is_for_a_better_packing():
    jobs = [job("A", needs=2, on=["n1", "n2"]), job("B", needs=1, on=["n1"]), job("C", needs=2)]
    view = cluster(nodes=[node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=1)], jobs=jobs)
    layout = repack(view, ask(A=2, B=1, C=2))
    assert len(set(where(layout)["A"])) == 1
    assert layout.because_of(JobId("A")) == Because(Why.REPACKED, (("moved", 1),))
    assert layout.because_of(JobId("C")) == NEXT_IN_ORDER


def test_shares_of_cards_that_stay_keep_their_card():
    jobs = [job(name, needs=1, gpus_each=0.5) for name in ("a", "b", "c", "d")]
    view = cluster(nodes=[node("n1", gpus=1), node("n2", gpus=2)], jobs=jobs)
    first = repack(view, ask(a=1, b=1, c=1))
    second = repack(_adopted(view, first), ask(a=1, b=1, c=1, d=1))
    assert {name: second.workers[name] for name in first.workers} == dict(first.workers)
    assert_no_node_is_overfull(view, second)


def test_shares_are_dealt_anew_where_they_block_a_whole_card():
    """Two halves sit on two cards of one node; a whole card is needed there, so one half changes cards."""
    halves = [job("a", needs=1, gpus_each=0.5, holds=[worker(0, "n1", "0")])]
    halves.append(job("b", needs=1, gpus_each=0.5, holds=[worker(0, "n1", "1")]))
    view = cluster(nodes=[node("n1", gpus=2)], jobs=[*halves, job("c", needs=1)])
    layout = repack(view, ask(a=1, b=1, c=1))
    assert len(layout.workers) == 3
    assert_no_node_is_overfull(view, layout)


def test_what_finds_no_node_is_told_so():
    view = cluster(nodes=[node("n1", gpus=2), node("n2", gpus=2)], jobs=[job("a", needs=1, gpus_each=3)])
    layout = repack(view, ask(a=1))
    assert where(layout) == {}
    numbers = (("needs_gpus", 3), ("largest_free_gpus_on_a_node", 2))
    assert layout.because_of(JobId("a")) == Because(Why.NO_NODE_FITS, numbers)


def test_workers_on_a_node_that_takes_nobody_new_are_left_alone():
    jobs = [job("a", at_least=1, at_most=4, on=["n1", "n1"]), job("b", needs=2)]
    view = cluster(nodes=[node("n1", gpus=4, taints=(Taint("kept"),)), node("n2", gpus=4)], jobs=jobs)
    assert where(repack(view, ask(a=3, b=2))) == {"a": ["n1", "n1", "n2"], "b": ["n2", "n2"]}


def test_guests_are_packed_around():
    guest = Guest("web", Resources(gpu_milli=3000))
    view = cluster(nodes=[node("n1", gpus=4, guests=(guest,)), node("n2", gpus=4)], jobs=[job("a", needs=5)])
    assert where(repack(view, ask(a=5))) == {"a": ["n2"] * 4 + ["n1"]}


def test_ties_by_lot_are_drawn_from_the_seed_anew_at_every_moment():
    """Six jobs of two in three nodes of four, and a seventh comes: who shares a node with whom is chance."""
    jobs = [job(f"j{at}", needs=2, on=[f"n{at // 2}"] * 2) for at in range(5)] + [job("new", needs=2)]
    view = cluster(nodes=[node(f"n{at}", gpus=4) for at in range(3)], jobs=jobs)
    target = ask(**{each.id: 2 for each in jobs})
    views = [replace(view, seed=seed, now_s=now_s) for seed in range(5) for now_s in (0.0, 120.0)]
    layouts = [repack_by_lot(each, target) for each in views]
    assert layouts == [repack_by_lot(each, target) for each in views]
    assert len({str(where(layout)) for layout in layouts[::2]}) > 1  # by seed
    assert len({str(where(layout)) for layout in layouts[:2]}) > 1  # by moment
    for each, layout in zip(views, layouts, strict=True):
        assert_no_node_is_overfull(each, layout)
        assert sorted(map(len, layout.workers.values())) == [2] * 6
    assert moved_workers(view, repack(view, target)) == 0
    assert max(moved_workers(each, layout) for each, layout in zip(views, layouts, strict=True)) > 0
