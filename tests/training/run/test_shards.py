"""The declared order: fixed for all time by its seed, complete, and the same however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.training import Mismatch, Shards
from sterna.training.data.shards import ShardSampler
from sterna.training.data.sources import Declared, Position, check_same_order, source_of


def test_the_order_of_a_seed_never_changes():
    """A golden list: should it ever differ, jobs that were begun before would skip samples and repeat others."""
    assert list(Shards(samples=12, batch=3, seed=0).order(0)) == [0, 6, 3, 5, 1, 7, 11, 9, 2, 4, 8, 10]
    assert list(Shards(samples=12, batch=3, seed=5).order(7)) == [7, 1, 2, 6, 11, 3, 8, 5, 4, 10, 9, 0]


@given(samples=st.integers(1, 300), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 1000))
def test_every_epoch_is_a_permutation(samples, seed, epoch):
    assert sorted(Shards(samples=samples, batch=1, seed=seed).order(epoch)) == list(range(samples))


@given(
    samples=st.integers(1, 200),
    legs=st.lists(st.tuples(st.integers(1, 9), st.integers(9, 40), st.integers(0, 30)), min_size=1, max_size=6),
    seed=st.integers(0, 5),
)
def test_r7_any_sequence_of_sizes_trains_each_sample_once_and_in_the_declared_order(samples, legs, seed):
    """Each leg: so many ranks, such a batch, so many steps; then the job is resized. The last leg ends the epoch."""
    trained: list[int] = []
    position = Position()
    for number, (ranks, batch, steps) in enumerate(legs):
        shards = Shards(samples=samples, batch=batch, seed=seed)
        ranks_of = [
            Declared(ShardSampler(shards, rank=rank, world_size=ranks)).opened(position) for rank in range(ranks)
        ]
        for done, slices in enumerate(zip(*ranks_of, strict=True)):
            if done == steps and number < len(legs) - 1:
                break
            assert max(map(len, slices)) - min(map(len, slices)) <= 1
            trained += [sample for mine in slices for sample in mine]
            position = Declared(ShardSampler(shards, rank=0, world_size=ranks)).after(position)
    assert trained == list(Shards(samples=samples, batch=1, seed=seed).order(0))
    assert position.samples == samples


@given(samples=st.integers(1, 60), batch=st.integers(1, 60), position=st.integers(0, 60), drop_last=st.booleans())
def test_what_is_left_is_what_comes(samples, batch, position, drop_last):
    if drop_last and batch > samples:
        with pytest.raises(ValueError, match="there are only"):
            Shards(samples=samples, batch=batch, drop_last=True)
        return
    shards = Shards(samples=samples, batch=batch, drop_last=drop_last)
    at = Position(samples=min(position, samples))
    sampler = ShardSampler(shards, rank=0, world_size=1)
    sampler.position = at.samples
    batches = list(Declared(ShardSampler(shards, rank=0, world_size=1)).opened(at))
    assert len(batches) == shards.batches_left(at.samples) == len(sampler)
    assert list(sampler) == batches
    assert all(len(each) == batch for each in batches[: None if drop_last else -1])


def test_without_shuffling_the_order_is_the_natural_one():
    assert list(Shards(samples=5, batch=2, shuffle=False).order(3)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0, "batch": 1}, "samples is 0; expected a whole number of at least 1"),
        ({"samples": 1, "batch": True}, "batch is True; expected"),
        ({"samples": 1.0, "batch": 1}, "samples is 1.0; expected"),
        ({"samples": 1, "batch": 1, "seed": "x"}, "seed is 'x'; expected a whole number"),
    ],
)
def test_nonsense_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Shards(**settings)


@pytest.mark.parametrize(
    ("then", "now", "fits"),
    [
        pytest.param(Shards(samples=9, batch=3), Shards(samples=9, batch=2), True, id="another batch is fine"),
        pytest.param(Shards(samples=9, batch=3), Shards(samples=9, batch=3, seed=1), False, id="another seed is not"),
        pytest.param(Shards(samples=9, batch=3), Shards(samples=8, batch=3), False, id="nor another number of samples"),
        pytest.param(Shards(samples=9, batch=3), [1, 2], False, id="nor something else altogether"),
        pytest.param([1, 2], [1, 2, 3], True, id="an iterable is trusted"),
        pytest.param(7, 9, True, id="more steps are fine"),
    ],
)
def test_a_position_is_refused_where_it_would_mean_something_else(then, now, fits):
    saved = source_of(then, rank=0, world_size=1).described()
    source = source_of(now, rank=0, world_size=1)
    check_same_order(saved, Position(epoch=3), source)  # at the beginning of an epoch anything goes
    if fits:
        check_same_order(saved, Position(batches=1), source)
    else:
        with pytest.raises(Mismatch, match="its position has no meaning there"):
            check_same_order(saved, Position(batches=1), source)
