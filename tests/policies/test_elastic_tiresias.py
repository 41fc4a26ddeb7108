"""Elastic-Tiresias: whole requests first, compaction under pressure, then the best gain, one step at a time."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.target import Target
from sterna.model.why import Why
from sterna.policies.elastic_tiresias import ElasticTiresiasOptions, elastic_tiresias
from sterna.policies.options import parse_options
from sterna.policies.sharing import price

SPEEDUPS = {
    "VGG": (1, 1.785, 2.5, 3.125),
    "RES": (1, 1.857, 2.6, 3.25),
    "INC": (1, 1.842, 2.692, 3.5),
    "TRF": (1, 1.657, 2.148, 2.521),
}


def models() -> list[Job]:
    return [
        job(name, at_most=4, initial=2, submitted_s=float(turn), first_started_s=float(turn), speedups=speedups)
        for turn, (name, speedups) in enumerate(SPEEDUPS.items())
    ]


def crowd(waiting: int) -> list[Job]:
    """`waiting` jobs of the first queue that are too big to start whole, and two small ones of the second."""
    big = [job(f"p{number:02}", at_most=16, initial=16) for number in range(waiting)]
    return [*big, *(job(name, at_most=4, initial=4, spec={"priority": -1}) for name in "XY")]


def sizes(jobs: list[Job], gpus: int, options: ElasticTiresiasOptions | None = None) -> dict[JobId, int]:
    return decide(jobs, gpus, options).workers_by_job()


def decide(jobs: list[Job], gpus: int, options: ElasticTiresiasOptions | None = None) -> Target:
    return elastic_tiresias(cluster(jobs=jobs, gpus=gpus), options or ElasticTiresiasOptions())


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(models(), 12, {"VGG": 3, "RES": 3, "INC": 4, "TRF": 2}, id="four models on 12 GPUs"),
        pytest.param(
            models(), 7, {"VGG": 2, "RES": 2, "INC": 2, "TRF": 1}, id="on 7 the last one starts at its minimum"
        ),
        pytest.param(crowd(11), 8, {"p00": 6, "X": 1, "Y": 1}, id="11 wait: the lower queue is cut to its minimum"),
        pytest.param(crowd(10), 8, {"X": 4, "Y": 4}, id="10 wait: not yet"),
    ],
)
def test_voda_15_golden_vectors(jobs, gpus, expected):
    assert sizes(jobs, gpus) == expected


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("a", at_least=4, at_most=8)],
            6,
            {"a": 6},
            id="a job that holds its minimum grows into room smaller than that minimum",
        ),
        pytest.param(
            [job("a", at_least=2, at_most=8, step=2)], 7, {"a": 6}, id="it grows by whole steps only, up to the room"
        ),
        pytest.param([job("a", at_least=1, at_most=6, step=3)], 9, {"a": 4}, id="nor past its maximum"),
        pytest.param([job("a", at_most=4, speedups=(1, 1, 1, 1))], 4, {"a": 1}, id="what brings no gain is left free"),
        pytest.param(
            [job("a", at_most=3, speedups=(1, 0.5, 9))], 3, {"a": 1}, id="it looks one step ahead, no further"
        ),
        pytest.param(
            [job("a", at_most=9, speedups=(1, 1.9, 2.7)), job("b", at_least=2, at_most=2, initial=2, submitted_s=9.0)],
            3,
            {"a": 1, "b": 2},
            id="a waiting job starts before a running one grows",
        ),
        pytest.param(
            [job("dear", at_most=2, gpus_each=4), job("cheap", at_most=8, submitted_s=1.0)],
            7,
            {"dear": 1, "cheap": 3},
            id="a step that does not fit does not end the contest for smaller ones",
        ),
        pytest.param(
            [job("b", at_most=200), job("a", at_most=200)],
            150,
            {"a": 149, "b": 1},
            id="equal gains go to whoever is ahead, undisturbed by rounding",
        ),
    ],
)
def test_voda_15_growth_keeps_to_minimum_maximum_and_step(jobs, gpus, expected):
    assert sizes(jobs, gpus) == expected


def test_the_threshold_of_compaction_is_an_option():
    options = parse_options(ElasticTiresiasOptions, {"compact-above": "4"}, of="policy elastic-tiresias")
    assert sizes(crowd(5), 8, options) == {"p00": 6, "X": 1, "Y": 1}
    assert sizes(crowd(4), 8, options) == {"X": 4, "Y": 4}


def test_every_grant_says_why_and_how_far_it_may_be_cut():
    target = decide(crowd(11), 8)
    assert {job_id: grant.because.why for job_id, grant in target.grants.items()} == {
        "p00": Why.BEST_GAIN,
        "X": Why.COMPACTED,
        "Y": Why.COMPACTED,
    }
    assert list(target.grants) == ["p00", "X", "Y"]  # in order of precedence, however late each was served
    assert {grant.floor for grant in target.grants.values()} == {1}


def test_the_moment_a_job_sinks_follows_from_the_size_it_gets():
    assert decide([job("a", at_most=4)], 4).wake_s == 3600.0 / 4


@st.composite
def elastic_jobs(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for number in range(draw(st.integers(0, 14))):
        at_least, step, steps = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 3))
        at_most = at_least + step * steps + draw(st.integers(0, step - 1))
        initial = draw(st.integers(at_least, at_most))
        speedups = draw(st.lists(st.floats(0.1, 20), min_size=1, max_size=at_most))
        shape: dict[str, Any] = {"at_least": at_least, "at_most": at_most, "initial": initial, "step": step}
        spec = {"priority": draw(st.integers(-1, 1))}
        each = draw(st.sampled_from([0.25, 1, 2]))
        jobs.append(
            job(f"j{number}", gpus_each=each, ps=draw(st.integers(0, 1)), speedups=speedups, spec=spec, **shape)
        )
    return jobs


@settings(max_examples=100, deadline=None)
@given(jobs=elastic_jobs(), gpus=st.integers(1, 24), above=st.integers(0, 6), seed=st.integers(0, 9))
def test_sizes_are_allowed_fit_and_do_not_depend_on_the_order_of_the_input(jobs, gpus, above, seed):
    options = ElasticTiresiasOptions(compact_above=above)
    view = cluster(jobs=jobs, gpus=gpus)
    target = elastic_tiresias(view, options)
    given_out = [(each, target.workers_of(each.id)) for each in jobs]
    assert all(workers == each.spec.allowed_size(workers) for each, workers in given_out)
    assert sum(price(each, workers, view.currency) for each, workers in given_out) <= view.capacity
    random.Random(seed).shuffle(jobs)
    assert elastic_tiresias(cluster(jobs=jobs, gpus=gpus), options) == target
