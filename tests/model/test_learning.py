"""Curves that are learned: exact where much was seen, sane where nothing was, never absurd."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.model.jobs import ProgressPoint
from sterna.model.learning import SEEN_OFTEN, Knowledge, ThroughputModel
from tests.worlds import job

CLOSE = 1 + 1e-9

OBSERVATIONS = st.lists(
    st.tuples(st.integers(1, 40), st.floats(1e-3, 1e5), st.integers(1, 12)),
    min_size=1,
    max_size=8,
)


def model(*observations: tuple[int, float, int]) -> ThroughputModel:
    made = ThroughputModel()
    for workers, unit_s, count in observations:
        made = made.observed(workers, unit_s, count)
    return made


def points(*epochs: tuple[int, float]) -> list[ProgressPoint]:
    return [ProgressPoint(0.0, 0.0, workers, unit_s) for workers, unit_s in epochs]


@given(OBSERVATIONS, st.integers(1, 64))
def test_voda_19_whatever_was_measured_the_curve_is_monotone_and_never_beats_linear(observations, workers_max):
    curve = model(*observations).curve(workers_max)
    assert curve.known_to == workers_max
    for workers in range(1, workers_max):
        assert curve.unit_s(workers + 1) <= curve.unit_s(workers) * CLOSE
    for workers in range(1, workers_max + 1):
        assert 1 / CLOSE <= curve.speedup(workers) <= workers * CLOSE


@given(OBSERVATIONS)
def test_voda_19_pace_stays_within_what_measurements_allow(observations):
    curve = model(*observations).curve(64)
    quickest = min(unit_s for _, unit_s, _ in observations)
    slowest = max(workers * unit_s for workers, unit_s, _ in observations)
    assert curve.unit_s(1) <= slowest * CLOSE  # all of it done by one worker would take no longer
    assert curve.unit_s(64) * 64 * CLOSE >= quickest


@given(OBSERVATIONS, st.floats(0.01, 100))
def test_voda_19_another_unit_of_work_scales_the_curve_and_nothing_else(observations, factor):
    plain = model(*observations).curve(16)
    scaled = model(*((workers, unit_s * factor, count) for workers, unit_s, count in observations)).curve(16)
    for workers in range(1, 17):
        assert scaled.unit_s(workers) == pytest.approx(plain.unit_s(workers) * factor)


@given(st.permutations([(1, 75.0, 2), (2, 40.0, 3), (4, 22.0, 1), (2, 44.0, 1)]))
def test_voda_19_the_order_of_epochs_does_not_matter(observations):
    assert model(*observations).curve(8).pace_s == pytest.approx(
        model((1, 75.0, 2), (2, 41.0, 4), (4, 22.0, 1)).curve(8).pace_s
    )


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        pytest.param([(1, 75.0), (2, 40.0), (4, 22.0)], {1: 75.0, 2: 40.0, 4: 22.0}, id="counts that agree"),
        pytest.param([(2, 40.0), (4, 15.0)], {2: 40.0, 4: 15.0}, id="the pace of one follows from what was seen"),
        pytest.param([(1, 10.0), (2, 10.0), (8, 10.0)], {1: 10.0, 2: 10.0, 8: 10.0}, id="a job that does not scale"),
    ],
)
def test_voda_19_a_count_that_was_seen_often_has_exactly_its_mean(observations, expected):
    curve = model(*((workers, unit_s, SEEN_OFTEN) for workers, unit_s in observations)).curve(8)
    assert {workers: curve.unit_s(workers) for workers in expected} == expected


def test_voda_19_one_odd_epoch_does_not_turn_a_well_known_curve_over():
    known = model((1, 80.0, 20), (2, 42.0, 20))
    odd = known.observed(4, 0.5)
    assert odd.curve(4).unit_s(4) >= 80.0 / 4
    assert odd.curve(4).unit_s(2) == pytest.approx(42.0)


def test_voda_20_after_two_workers_alone_one_and_three_are_sane():
    curve = model((2, 40.0, 1)).curve(3)  # the collector used to say: speed-up 0.025 with two, 1 with three
    assert 40.0 < curve.unit_s(1) <= 80.0
    assert curve.unit_s(2) == pytest.approx(40.0)
    assert 2.0 < curve.speedup(3) <= 3.0


def test_voda_20_after_one_worker_alone_three_are_sane():
    curve = model((1, 75.0, 1)).curve(3)  # the collector used to say: speed-up 75 with three
    assert curve.unit_s(1) == pytest.approx(75.0)
    assert 2.0 < curve.speedup(3) <= 3.0


def test_voda_20_a_job_that_gets_slower_with_more_workers_is_expected_to_gain_nothing():
    curve = model((1, 10.0, 9), (4, 20.0, 9)).curve(8)
    assert curve.speedup(8) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("workers", "unit_s", "count"),
    [
        pytest.param(0, 1.0, 1, id="no workers"),
        pytest.param(1, 1.0, 0, id="no epochs"),
        pytest.param(1, 0.0, 1, id="no time"),
        pytest.param(1, -1.0, 1, id="negative time"),
        pytest.param(1, float("nan"), 1, id="not a number"),
        pytest.param(1, float("inf"), 1, id="for ever"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(workers, unit_s, count):
    with pytest.raises(InvalidRequest):
        ThroughputModel().observed(workers, unit_s, count)


def test_voda_19_a_new_category_is_linear():
    curve = Knowledge().curve_for(job("a", at_most=4, spec={"category": "vgg"}).spec)
    assert [curve.speedup(workers) for workers in range(1, 5)] == pytest.approx([1, 2, 3, 4])


def test_voda_19_after_one_finished_job_the_next_starts_with_its_curve():
    first = job("a", at_most=4, spec={"category": "vgg", "accelerator": "v100"}).spec
    epochs = points(*[(1, 75.0)] * 5, *[(2, 40.0)] * 5, *[(4, 22.0)] * 5)
    knowledge = Knowledge().learn(first, "v100", epochs).completed(first, "v100", 60.0)
    following = job("b", at_most=4, spec={"category": "vgg", "accelerator": "v100"}).spec
    curve = knowledge.curve_for(following)
    assert (curve.unit_s(1), curve.unit_s(2), curve.unit_s(4)) == (75.0, 40.0, 22.0)
    assert knowledge.units_for(following) == 60.0
    assert 60.0 * curve.unit_s(2) == 2400.0  # so its remaining time with two workers is known before it ran


def test_voda_19_accelerators_are_learned_apart():
    spec = job("a", at_most=4, spec={"category": "vgg"}).spec
    knowledge = Knowledge().learn(spec, "v100", points(*[(1, 75.0)] * 5)).learn(spec, "a100", points(*[(1, 25.0)] * 5))
    assert knowledge.curve_for(spec, "v100").unit_s(1) == 75.0
    assert knowledge.curve_for(spec, "a100").unit_s(1) == 25.0


def test_voda_19_a_pool_that_never_ran_the_category_expects_what_the_others_saw():
    spec = job("a", at_most=4, spec={"category": "vgg"}).spec
    knowledge = Knowledge().learn(spec, "v100", points(*[(1, 75.0)] * 5)).completed(spec, "v100", 50.0)
    assert knowledge.curve_for(spec, "a100").unit_s(1) == 75.0
    assert knowledge.units_for(spec, "a100") == 50.0


def test_voda_19_categories_and_jobs_without_one_learn_nothing_from_each_other():
    vgg, other, none = (job("a", at_most=2, spec={"category": name}).spec for name in ("vgg", "bert", ""))
    knowledge = Knowledge().learn(vgg, "v100", points((1, 75.0))).learn(none, "v100", points((1, 9.0)))
    assert knowledge.curve_for(other, "v100").unit_s(1) == 1.0
    assert knowledge.curve_for(none, "v100").unit_s(1) == 1.0
    assert knowledge.units_for(other) is None


@settings(max_examples=30)
@given(OBSERVATIONS)
def test_learning_never_changes_the_value_it_started_from(observations):
    start = model((1, 10.0, 1))
    before = start.seen
    for workers, unit_s, count in observations:
        start.observed(workers, unit_s, count)
    assert start.seen == before


def test_a_count_that_somebody_made_up_costs_no_time():
    """The curve of a job has as many entries as the job may have workers, whatever counts were told of."""
    model = ThroughputModel().observed(1, 8.0).observed(10**15, 2.0)
    curve = model.curve(4)
    assert curve.known_to == 4
    assert curve.unit_s(1) > curve.unit_s(2) > curve.unit_s(4) > 2.0
