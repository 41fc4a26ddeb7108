"""What every placement promises, in worlds that nobody thought of."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from sterna.placement.packed import packed
from sterna.placement.repack import repack
from sterna.placement.strategies import PLACEMENTS, placement
from sterna.placement.widest import widest, widest_smallest_first
from tests.placement.checking import (
    assert_everybody_is_let_in,
    assert_jobs_are_whole,
    assert_no_node_is_overfull,
)
from tests.placement.random_worlds import next_world, random_target, random_world

OURS = {"packed": packed, "repack": repack, "widest": widest, "widest-smallest-first": widest_smallest_first}
FORCED = {Why.NODE_LOST, Why.NODE_DRAINED, Why.CROWDED_OUT}
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_layouts_hold_through_a_life_of_churn(name, seed):
    """Nothing overfull, nobody where it may not be, no job halved; whatever happens to nodes, nothing raises."""
    chance = Random(seed)
    view = random_world(chance)
    for _ in range(5):
        target = random_target(chance, view)
        layout = OURS[name](view, target)
        assert_no_node_is_overfull(view, layout)
        assert_jobs_are_whole(view, target, layout)
        assert_everybody_is_let_in(view, layout)
        left_out = [job_id for job_id in target.grants if job_id not in layout.workers]
        assert all(layout.because_of(job_id).why is Why.NO_NODE_FITS for job_id in left_out)
        view = next_world(chance, view, layout)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_packed_moves_nobody_without_need(seed):
    chance = Random(seed)
    view = random_world(chance)
    for _ in range(4):
        target = random_target(chance, view)
        layout = packed(view, target)
        for job in view.jobs:
            was = {worker[:2]: worker for worker in job.workers}
            changed = [w for w in layout.workers_of(job.id) if was.get(w[:2], w) != w]
            assert not changed or layout.because_of(job.id).why in FORCED
        view = next_world(chance, view, layout)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_input_order_does_not_matter(name, seed):
    chance = Random(seed)
    view = random_world(chance)
    view = next_world(chance, view, packed(view, random_target(chance, view)))
    target = random_target(chance, view)
    first = OURS[name](view, target)
    nodes, jobs = chance.sample(view.nodes, len(view.nodes)), chance.sample(view.jobs, len(view.jobs))
    second = OURS[name](Snapshot.of(now_s=view.now_s, nodes=nodes, jobs=jobs), target)
    assert (first.workers, first.becauses) == (second.workers, second.becauses)


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_asking_for_what_is_there_changes_nothing(name, seed):
    """A layout that came true is its own answer: the very same tuples, and no reasons."""
    chance = Random(seed)
    view = random_world(chance)
    target = random_target(chance, view)
    layout = OURS[name](view, target)
    settled = Snapshot.of(
        now_s=1.0, nodes=view.nodes, jobs=[job.but(workers=layout.workers_of(job.id)) for job in view.jobs]
    )
    sizes = {
        job.id: target.grants[job.id]._replace(workers=job.size) for job in settled.jobs if job.id in layout.workers
    }
    again = OURS[name](settled, type(target)(sizes))
    assert dict(again.becauses) == {}
    assert all(again.workers[job.id] is job.workers for job in settled.jobs if job.workers)


def test_an_unknown_placement_lists_what_there_is():
    with pytest.raises(InvalidRequest, match="packed, repack, repack-by-lot, widest"):
        placement("tetris")
    assert all(placement(name) is place for name, place in PLACEMENTS.items())
