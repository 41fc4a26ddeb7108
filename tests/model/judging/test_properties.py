"""What holds of every judge and of everything that a program could report."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged, Merge, Mode, Rule
from sterna.model.judging.categories import TRANSITIONS
from tests.model.judging.curves import categories

judges = st.builds(
    Judge,
    threshold=st.sampled_from([0.0, 0.05, 0.1, 0.9, 2.0]),
    check_interval_s=st.sampled_from([0.0, 1.0, 10.0]),
    mode=st.sampled_from(Mode),
    rule=st.sampled_from(Rule),
    merge=st.sampled_from(Merge),
    median_of=st.integers(1, 5),
    over_checks=st.integers(1, 5),
    confirmations=st.integers(1, 3),
    settle_checks=st.integers(0, 2),
    window=st.integers(3, 12),
    per_cpu=st.booleans(),
)
anything = st.floats(allow_nan=True, allow_infinity=True)
finite = st.lists(st.floats(-1000, 1000, width=32), min_size=2, max_size=40)
FOLLOWING = {(before, after) for (before, _), after in TRANSITIONS.items()}


@given(judge=judges, reports=st.lists(st.tuples(anything, anything, st.none() | anything), max_size=40))
def test_anything_may_be_reported_at_any_time(judge, reports):
    judged = Judged.fresh(judge)
    for at_s, value, cpu_milli in reports:
        judged = judged.seen(at_s, value, cpu_milli)
        score, efficiency = judged.growth.score, judged.growth.efficiency
        assert score is None or 0 <= score < math.inf
        assert efficiency is None or 0 <= efficiency < math.inf
        assert math.isfinite(judged.growth.since_s)


@given(
    judge=judges,
    steps=st.lists(st.tuples(st.floats(0, 1e-300) | st.floats(0, 100), st.floats(-1e30, 1e30)), max_size=40),
)
def test_moments_may_be_as_close_and_values_as_far_apart_as_they_like(judge, steps):
    judged, at_s = Judged.fresh(judge), 0.0
    for elapsed_s, value in steps:
        at_s += elapsed_s
        judged = judged.seen(at_s, value, 1.0)
        assert judged.growth.score is None or math.isfinite(judged.growth.score)


@given(judge=judges, values=finite, cpu_milli=st.floats(1, 64000))
def test_the_category_changes_only_along_the_table(judge, values, cpu_milli):
    judged = Judged.fresh(judge)
    for number, value in enumerate(values):
        before, judged = judged, judged.seen(number * 10.0, value, cpu_milli)
        assert (before.growth.category, judged.growth.category) in FOLLOWING
        changed = before.growth.category is not judged.growth.category
        assert not changed or judged.growth.since_s == number * 10.0


@given(
    values=finite,
    scale=st.sampled_from([2.0**power for power in (-40, -3, -1, 1, 5, 40)] + [-1.0, -4.0]),
    mode=st.sampled_from([Mode.NORMALISED, Mode.RELATIVE]),
    rule=st.sampled_from([Rule.SPECON, Rule.LOGLINEAR]),
)
def test_the_units_of_a_value_do_not_matter(values, scale, mode, rule):
    """Powers of two, so that scaling itself rounds nothing."""
    judge = Judge(mode=mode, rule=rule, merge=Merge.MEAN, check_interval_s=20.0)
    scaled = [scale * value for value in values]
    assert categories(judge, values) == categories(judge, scaled)


@given(values=finite, scale=st.sampled_from([2.0**power for power in (-10, -2, 1, 6)]))
def test_how_fast_the_clock_runs_does_not_matter_where_growth_is_normalised(values, scale):
    one, other = Judge(check_interval_s=10.0), Judge(check_interval_s=10.0 * scale)
    assert categories(one, values) == categories(other, values, every_s=10.0 * scale)


@given(judge=judges, values=finite)
def test_what_is_repeated_or_late_changes_nothing(judge, values):
    judged = Judged.fresh(judge)
    for number, value in enumerate(values):
        judged = judged.seen(number * 10.0, value, 500)
        assert judged.seen(number * 10.0, value, 500) is judged
        assert judged.seen(number * 10.0 - 5.0, -value, 500) is judged
        assert judged.seen(number * 10.0 + 5.0, math.nan) is judged


@given(judge=judges, values=finite, at=st.integers(0, 39))
def test_a_restart_alone_changes_no_category_nor_does_the_value_after_it(judge, values, at):
    judged = Judged.fresh(judge)
    for number, value in enumerate(values[:at]):
        judged = judged.seen(number * 10.0, value, 500)
    moved = judged.restarted(at * 10.0)
    expected = Category.PROGRESSING if judge.rule is Rule.COMPAT else judged.growth.category
    assert moved.growth.category is expected
    assert moved.seen(at * 10.0 + 30.0, values[-1], 500).growth.category is expected


@given(judge=judges, values=finite)
def test_a_judged_job_is_a_value(judge, values):
    judged = Judged.fresh(judge)
    for number, value in enumerate(values):
        before, copied = judged, judged._replace()
        judged = before.seen(number * 10.0, value)
        assert before == copied
        assert before.seen(number * 10.0, value) == judged
        hash(judged)
