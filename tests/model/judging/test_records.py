"""What an engine stores of a judged job, and that nothing it reads back can do harm."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged, Merge, Mode, Rule
from tests.model.judging.curves import after, growing_by, saturating

JUDGES = [
    Judge(),
    Judge(mode=Mode.RAW, median_of=5, over_checks=3, confirmations=4),
    Judge(mode=Mode.RELATIVE, merge=Merge.LATEST, settle_checks=2),
    Judge(rule=Rule.LOGLINEAR, window=7, per_cpu=True),
    Judge(rule=Rule.COMPAT),
]
reports = st.lists(
    st.tuples(st.floats(-5, 50), st.floats(allow_nan=True, allow_infinity=True), st.none() | st.floats(-10, 1e6)),
    max_size=40,
)


def stored(judged: Judged) -> dict[str, object]:
    record: dict[str, object] = json.loads(json.dumps(judged.to_record(), allow_nan=False))
    return record


@given(reports=reports, judge=st.sampled_from(JUDGES))
def test_a_record_brings_back_the_same_value(reports, judge):
    judged, at_s = Judged.fresh(judge), 0.0
    for elapsed_s, value, cpu_milli in reports:
        at_s += elapsed_s
        judged = judged.seen(at_s, value, cpu_milli)
        assert Judged.from_record(judge, stored(judged)) == judged


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: f"{judge.rule}, {judge.mode}")
def test_judging_goes_on_from_a_record_as_if_nothing_had_happened(judge):
    values = saturating(60)
    uninterrupted = after(judge, values)
    again = Judged.fresh(judge)
    for number, value in enumerate(values):
        again = Judged.from_record(judge, stored(again)).seen(number * 10.0, value)
    assert again == uninterrupted


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: f"{judge.rule}, {judge.mode}")
def test_a_record_does_not_grow(judge):
    short, long = after(judge, saturating(60)), after(judge, saturating(3000))
    assert len(json.dumps(long.to_record())) < len(json.dumps(short.to_record())) + 200


def test_a_record_is_small():
    assert len(json.dumps(after(Judge(rule=Rule.LOGLINEAR), saturating(100)).to_record())) < 1000


def test_a_record_holds_nothing_but_numbers():
    for content in after(JUDGES[1], saturating(30)).to_record().values():
        numbers = content if isinstance(content, list) else [content]
        assert all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)


def test_every_record_has_the_same_keys_so_that_one_can_be_merged_over_another():
    records = [Judged.fresh(Judge()), after(Judge(), [1.0]), after(Judge(), saturating(9)).restarted(95.0)]
    assert len({tuple(judged.to_record()) for judged in records}) == 1


GOOD = after(Judge(), growing_by(1, 0, 0)).to_record()


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({}, id="nothing"),
        pytest.param({**GOOD, "category": 3}, id="a category that does not exist"),
        pytest.param({**GOOD, "category": "Converged"}, id="a word"),
        pytest.param({**GOOD, "category": True}, id="a truth value"),
        pytest.param({**GOOD, "category": 1.5}, id="half a category"),
        pytest.param({**GOOD, "peak": math.nan}, id="not a number"),
        pytest.param({**GOOD, "peak": -1}, id="growth below nothing"),
        pytest.param({**GOOD, "peak": 10**400}, id="a number that has no float"),
        pytest.param({**GOOD, "last": [math.inf]}, id="a moment that never comes"),
        pytest.param({**GOOD, "last": 30.0}, id="a number that is not in a list"),
        pytest.param({**GOOD, "points": [1.0]}, id="half a point"),
        pytest.param({**GOOD, "points": "far"}, id="text for points"),
        pytest.param({**GOOD, "points": [None, None]}, id="points that are nowhere"),
        pytest.param({**GOOD, "gathered": [1, 2]}, id="values that were not gathered whole"),
        pytest.param({key: number for key, number in GOOD.items() if key != "trained"}, id="something missing"),
    ],
)
def test_a_record_that_cannot_be_read_is_a_fresh_start(record):
    assert Judged.from_record(Judge(), record) == Judged.fresh(Judge())


def test_the_record_that_is_damaged_in_this_table_is_good():
    assert Judged.from_record(Judge(), GOOD).growth.category is Category.CONVERGED


nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=10),
    max_leaves=12,
)


@given(
    damage=st.dictionaries(st.sampled_from(sorted(GOOD)), nonsense),
    judge=st.sampled_from(JUDGES),
    reports=reports,
)
def test_whatever_a_record_says_judging_goes_on(damage, judge, reports):
    judged, at_s = Judged.from_record(judge, {**GOOD, **damage}), 0.0
    for elapsed_s, value, cpu_milli in reports:
        at_s += elapsed_s
        judged = judged.seen(at_s, value, cpu_milli)
        json.dumps(judged.to_record(), allow_nan=False)
    assert judged.growth.category in Category


def test_another_threshold_goes_on_with_what_was_learned():
    judged = after(Judge(), growing_by(1, 0, 0))
    assert Judged.from_record(Judge(threshold=0.5), judged.to_record()).peak == judged.peak


@pytest.mark.parametrize("other", [Judge(mode=Mode.RELATIVE), Judge(per_cpu=True)])
def test_another_measure_keeps_the_category_and_learns_the_rest_anew(other):
    judged = Judged.from_record(other, after(Judge(), growing_by(1, 0, 0)).to_record())
    assert judged.growth.category is Category.CONVERGED
    assert judged.growth.since_s == 30.0
    assert (judged.peak, judged.rates, judged.growth.score) == (0.0, (), None)
    assert judged.seen(40.0, 1.0).growth.since_s == 30.0


def test_shorter_windows_are_filled_with_the_latest():
    judged = after(Judge(rule=Rule.LOGLINEAR, window=10, median_of=5, over_checks=5), saturating(30))
    shorter = Judged.from_record(Judge(rule=Rule.LOGLINEAR, window=4, median_of=1, over_checks=1), judged.to_record())
    assert shorter.rates == judged.rates[-4:]
    assert shorter.points == judged.points[-2:]
