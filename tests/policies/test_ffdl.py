"""FfDL: the best sum of speed-ups, checked against trying everything out."""

import random
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from sterna.policies.ffdl import FfdlOptions, ffdl
from sterna.policies.options import parse_options
from sterna.policies.sharing import price

SPEEDUPS = {
    "VGG": (1, 1.785, 2.5, 3.125),
    "RES": (1, 1.857, 2.6, 3.25),
    "INC": (1, 1.842, 2.692, 3.5),
    "TRF": (1, 1.657, 2.148, 2.521),
}
NO_TABLE = FfdlOptions(table_cells=0)


def models() -> list[Job]:
    return [
        job(name, at_most=4, initial=2, submitted_s=float(turn), speedups=speedups)
        for turn, (name, speedups) in enumerate(SPEEDUPS.items())
    ]


def sizes(jobs: list[Job], gpus: int, options: FfdlOptions | None = None) -> dict[JobId, int]:
    return ffdl(cluster(jobs=jobs, gpus=gpus), options or FfdlOptions()).workers_by_job()


def millionths(each: Job, workers: int) -> int:
    """What so many workers add to the minimum, step by step."""
    sizes = range(each.spec.workers_min, workers + 1, each.spec.workers_step)
    return sum(round((each.curve.speedup(b) - each.curve.speedup(a)) * 1_000_000) for a, b in pairwise(sizes))


def by_trying_everything(view: Snapshot) -> dict[JobId, int]:
    """The definition: admit by minimum, then the best sum, then the least for the last job, then for the one before."""
    room, admitted = view.capacity, []
    for each in view.jobs:
        if (cost := price(each, each.spec.workers_min, view.currency)) <= room:
            room -= cost
            admitted.append(each)
    grids = [range(each.spec.workers_min, each.spec.workers_max + 1, each.spec.workers_step) for each in admitted]
    fitting = (
        chosen
        for chosen in product(*grids)
        if sum(price(each, n, view.currency) for each, n in zip(admitted, chosen, strict=True)) <= view.capacity
    )
    best = max(
        fitting,
        key=lambda chosen: (
            sum(millionths(each, n) for each, n in zip(admitted, chosen, strict=True)),
            [-n for n in reversed(chosen)],
        ),
    )
    return {each.id: n for each, n in zip(admitted, best, strict=True)}


@st.composite
def small_worlds(draw: st.DrawFn) -> Snapshot:
    """Up to 5 jobs on up to 8 GPUs: curves of any shape, with ties, steps, and workers of several prices."""
    prices: list[float] = draw(st.sampled_from([[1.0], [1.0], [1.0, 2.0], [0.25, 1.0]]))
    jobs = []
    for number in range(draw(st.integers(0, 5))):
        at_least = draw(st.integers(1, 3))
        shape: dict[str, Any] = {"at_least": at_least, "at_most": at_least + draw(st.integers(0, 5))}
        speedups = draw(st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 3.3]), min_size=1, max_size=8))
        step, each = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from(prices))
        jobs.append(job(f"j{number}", step=step, gpus_each=each, speedups=speedups, **shape))
    return cluster(jobs=jobs, gpus=draw(st.integers(1, 8)))


@settings(max_examples=300, deadline=None)
@given(view=small_worlds())
def test_voda_16_equals_trying_everything_out(view):
    assert ffdl(view, FfdlOptions()).workers_by_job() == by_trying_everything(view)


@settings(max_examples=100, deadline=None)
@given(
    gains=st.lists(st.lists(st.sampled_from([0, 1, 1, 2, 3, 5]), max_size=7), min_size=1, max_size=5),
    gpus=st.integers(1, 8),
)
def test_voda_16_the_quick_way_for_concave_curves_equals_trying_everything_out(gains, gpus):
    jobs = []
    for number, steps in enumerate(gains):
        speedups = [6.0]
        for gain in sorted(steps, reverse=True):
            speedups.append(speedups[-1] + gain)
        jobs.append(job(f"j{number}", at_most=len(speedups), speedups=speedups))
    view = cluster(jobs=jobs, gpus=gpus)
    assert ffdl(view, NO_TABLE).workers_by_job() == by_trying_everything(view)


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(models(), 12, {"VGG": 3, "RES": 3, "INC": 4, "TRF": 2}, id="four models on 12 GPUs"),
        pytest.param(models(), 3, {"VGG": 1, "RES": 1, "INC": 1}, id="on 3 the last one is not admitted"),
        pytest.param([], 4, {}, id="no jobs is an empty answer"),
        pytest.param([job("a", needs=9)], 4, {}, id="nobody fits is an empty answer"),
        pytest.param(
            [job("big", at_least=6, at_most=8), job("a", at_most=2, submitted_s=1.0)],
            4,
            {"a": 2},
            id="a job whose minimum does not fit does not stop those behind it",
        ),
        pytest.param(
            [job("a", at_most=4), job("b", at_most=4)],
            5,
            {"a": 4, "b": 1},
            id="of equal answers, less for the later job",
        ),
        pytest.param([job("a", at_most=4, speedups=(1, 1, 1, 1))], 4, {"a": 1}, id="what brings nothing is not taken"),
        pytest.param(
            [job("a", at_most=3, speedups=(1, 1.1, 9)), job("b", at_most=3, speedups=(1, 2, 3))],
            4,
            {"a": 3, "b": 1},
            id="it sees past a step that brings little",
        ),
        pytest.param(
            [job("a", at_least=2, at_most=9, step=4, speedups=(1, 2, 3, 4))],
            8,
            {"a": 6},
            id="the first size beyond the end of a curve may still be the fastest",
        ),
        pytest.param([job("a", at_most=3, speedups=(1, 1e30, 2e30))], 3, {"a": 2}, id="an absurd curve does no harm"),
    ],
)
def test_voda_16_golden_vectors(jobs, gpus, expected):
    assert sizes(jobs, gpus) == expected


def test_voda_16_the_sum_is_the_one_of_the_golden_vector():
    chosen = sizes(models(), 12)
    assert sum(each.curve.speedup(chosen[each.id]) for each in models()) == pytest.approx(10.257)


def test_workers_that_cost_nothing_scarce_get_the_fastest_size():
    idle = job("cpu", at_most=4, gpus_each=0, cpus_each=1, speedups=(1, 2, 1.5, 1.5))
    assert sizes([idle, job("gpu", needs=1)], 1) == {"cpu": 2, "gpu": 1}


def test_grants_say_why_and_may_be_cut_to_the_minimum():
    target = ffdl(cluster(jobs=models(), gpus=5), FfdlOptions())
    assert {grant.floor for grant in target.grants.values()} == {1}
    assert [target.because_of(each.id).why for each in models()] == [
        Why.NEXT_IN_ORDER,
        Why.BEST_GAIN,
        Why.NEXT_IN_ORDER,
        Why.NEXT_IN_ORDER,
    ]


@settings(max_examples=60, deadline=None)
@given(view=small_worlds(), cells=st.sampled_from(["0", "200000000"]), seed=st.integers(0, 9))
def test_sizes_fit_and_do_not_depend_on_the_order_of_the_input_even_when_approximate(view, cells, seed):
    options = parse_options(FfdlOptions, {"table-cells": cells}, of="policy ffdl")
    target = ffdl(view, options)
    given_out = [(each, target.workers_of(each.id)) for each in view.jobs]
    assert all(workers == each.spec.allowed_size(workers) for each, workers in given_out)
    assert sum(price(each, workers, Currency.GPU) for each, workers in given_out) <= view.capacity
    shuffled = list(view.jobs)
    random.Random(seed).shuffle(shuffled)
    assert ffdl(cluster(jobs=shuffled, nodes=view.nodes), options) == target


def test_the_approximation_misses_by_less_than_the_growth_of_one_job():
    chance = random.Random(5)
    jobs = [
        job(f"j{number}", at_most=6, gpus_each=chance.choice([0.3, 1]), speedups=[n**0.7 for n in range(1, 7)])
        for number in range(30)
    ]
    exact, quick = sizes(jobs, 40), sizes(jobs, 40, NO_TABLE)
    best, found = (sum(each.curve.speedup(got[each.id]) for each in jobs) for got in (exact, quick))
    assert best - 6**0.7 < found <= best
