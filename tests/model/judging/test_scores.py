"""How much a check says a value has grown: the three modes, per CPU, and what becomes of values that come too often."""

import itertools
import math

import pytest

from sterna.model.growth import Category, Growth
from sterna.model.judging import Judge, Judged, Merge, Mode
from tests.model.judging.curves import after, growing_by, saturating, scores

RATIO = math.exp(-1 / 8)  # from one check to the next on the curve that `saturating` answers


@pytest.mark.parametrize("mode", [Mode.RAW, Mode.NORMALISED])
def test_voda_34_scores_of_an_exponential_loss_fall_geometrically(mode):
    loss = [2.5 * math.exp(-check / 8) + 0.3 for check in range(40)]
    found = scores(Judge(mode=mode), loss)[1:]
    for earlier, later in itertools.pairwise(found):
        assert earlier is not None
        assert later == pytest.approx(earlier * RATIO)


def test_voda_34_a_score_needs_two_samples():
    first = Judged.fresh(Judge()).seen(0.0, 0.5)
    assert first.growth == Growth(Category.PROGRESSING, score=None, efficiency=None, since_s=0.0)
    assert first.seen(10.0, 0.6).growth.score == 1.0


def test_voda_34_the_direction_of_growth_does_not_matter():
    rising = saturating(30)
    falling = [1 - value for value in rising]
    assert scores(Judge(), rising)[1:] == pytest.approx(scores(Judge(), falling)[1:])


@pytest.mark.parametrize(
    ("mode", "values", "expected"),
    [
        pytest.param(Mode.RAW, [1.0, 3.0, 4.0], [0.2, 0.1], id="raw is change by the second"),
        pytest.param(Mode.NORMALISED, [1.0, 3.0, 4.0], [1.0, 0.5], id="normalised is a share of the largest so far"),
        pytest.param(Mode.NORMALISED, [1.0, 2.0, 4.0], [1.0, 1.0], id="and the largest may still come"),
        pytest.param(Mode.NORMALISED, [4.0, 4.0, 4.0], [0.0, 0.0], id="no change at all has a score of nothing"),
        pytest.param(Mode.RELATIVE, [1.0, 4.0, 3.0], [0.75, 0.25], id="relative is change by the value's own size"),
        pytest.param(Mode.RELATIVE, [0.0, 0.0, 2.0], [0.0, 1.0], id="and a value of 0 does no harm"),
    ],
)
def test_voda_34_modes(mode, values, expected):
    assert scores(Judge(mode=mode), values)[1:] == pytest.approx(expected)


def test_voda_34_longer_between_two_checks_is_slower_growth():
    judged = Judged.fresh(Judge(mode=Mode.RAW)).seen(0.0, 1.0).seen(40.0, 3.0)
    assert judged.growth.score == pytest.approx(0.05)


def test_efficiency_is_the_score_for_each_cpu():
    judged = Judged.fresh(Judge()).seen(0.0, 1.0, 500).seen(10.0, 2.0, 500)
    assert judged.growth.efficiency == pytest.approx(2.0)
    assert judged.seen(20.0, 2.5, 2000).growth.efficiency == pytest.approx(0.25)


@pytest.mark.parametrize("cpu_milli", [None, 0.0, -5.0, math.nan, math.inf, 1e-9])
def test_without_a_measured_cpu_there_is_no_efficiency(cpu_milli):
    judged = Judged.fresh(Judge()).seen(0.0, 1.0, cpu_milli).seen(10.0, 2.0, cpu_milli)
    assert judged.growth.efficiency is None
    assert judged.growth.score == 1.0


def test_a_job_that_lacks_cpu_does_not_look_converged_when_judged_per_cpu():
    """From its fourth check on it has a twentieth of the CPU, and gains a twentieth."""
    values = growing_by(1, 1, 1, *[0.05] * 6)
    by_time, per_cpu = Judged.fresh(Judge()), Judged.fresh(Judge(per_cpu=True))
    for number, value in enumerate(values):
        cpu_milli = 1000 if number <= 3 else 50
        by_time = by_time.seen(number * 10.0, value, cpu_milli)
        per_cpu = per_cpu.seen(number * 10.0, value, cpu_milli)
    assert by_time.growth.category is Category.CONVERGED
    assert per_cpu.growth.category is Category.PROGRESSING
    assert per_cpu.growth.score == per_cpu.growth.efficiency == pytest.approx(1.0)


def test_judged_per_cpu_a_check_without_a_measurement_says_nothing():
    judged = Judged.fresh(Judge(per_cpu=True)).seen(0.0, 1.0, 1000).seen(10.0, 2.0, 1000)
    unmeasured = judged.seen(20.0, 2.0).seen(30.0, 2.0).seen(40.0, 2.0)
    assert unmeasured.growth == judged.growth


@pytest.mark.parametrize("merge", list(Merge))
def test_values_within_the_interval_are_one_check(merge):
    judged = after(Judge(merge=merge), [0.01 * number for number in range(401)], every_s=0.1)  # 40 s
    assert judged.number == 4


def test_the_mean_of_a_check_does_not_change_the_slope():
    """A straight line has the same growth however often it is reported, from the first check on."""
    seldom = scores(Judge(mode=Mode.RAW), [0.5 * number for number in range(8)], every_s=10.0)
    often = scores(Judge(mode=Mode.RAW), [0.05 * number for number in range(71)], every_s=1.0)
    assert seldom[1:] == pytest.approx([0.05] * 7)
    assert often[10:] == pytest.approx([0.05] * 61)


def test_the_latest_value_is_taken_as_it_is():
    judged = Judged.fresh(Judge(mode=Mode.RAW, merge=Merge.LATEST)).seen(0.0, 0.0)
    for at_s, value in [(3.0, 70.0), (6.0, -40.0), (9.0, 55.0), (10.0, 2.0)]:
        judged = judged.seen(at_s, value)
    assert judged.growth.score == pytest.approx(0.2)


def test_noise_that_crowds_behind_a_check_is_no_steep_slope():
    judged = Judged.fresh(Judge(mode=Mode.RAW)).seen(0.0, 1.0)
    for number in range(1, 1000):
        judged = judged.seen(number * 1e-6, 1.1)
    assert judged.seen(10.0, 1.1).growth.score == pytest.approx(0.1 / 5)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-7, 123456.789])
def test_a_constant_stays_one_however_often_it_is_reported(value):
    found = scores(Judge(mode=Mode.RAW), [value] * 300, every_s=0.7)
    assert set(found) == {None, 0.0}


def test_jitter_of_the_clock_does_not_merge_two_checks():
    judged = Judged.fresh(Judge())
    for number in range(5):
        judged = judged.seen(1.7e9 + number * 10.0 - 4e-7 * (number % 2), float(number))
    assert judged.number == 4
