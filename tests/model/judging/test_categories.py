"""Progressing, Watching, Converged: the table, walked, and scripted jobs that go through it."""

import itertools
import math
import random

import pytest

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged, Mode
from sterna.model.judging.categories import TRANSITIONS, Sign
from tests.model.judging.curves import after, categories, changes, growing_by, saturating

P, W, C = Category.PROGRESSING, Category.WATCHING, Category.CONVERGED


def test_voda_35_every_category_answers_to_every_sign():
    assert set(TRANSITIONS) == set(itertools.product(Category, Sign))


@pytest.mark.parametrize(
    ("category", "sign", "following"),
    [
        pytest.param(P, Sign.GROWING, P, id="what grows goes on progressing"),
        pytest.param(P, Sign.SLOWING, W, id="what slows down is watched"),
        pytest.param(P, Sign.SETTLING, W, id="one check alone never makes it converged"),
        pytest.param(W, Sign.GROWING, P, id="what is watched and grows was a false alarm"),
        pytest.param(W, Sign.SLOWING, W, id="while in doubt it is watched on"),
        pytest.param(W, Sign.SETTLING, C, id="no longer in doubt it has converged"),
        pytest.param(C, Sign.GROWING, P, id="what grows again recovers at once"),
        pytest.param(C, Sign.SLOWING, C, id="doubt does not bring it back"),
        pytest.param(C, Sign.SETTLING, C, id="what has converged stays so"),
    ],
)
def test_voda_35_the_table(category, sign, following):
    assert TRANSITIONS[category, sign] is following


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        pytest.param([], [P], id="one value says nothing"),
        pytest.param([1, 0.5, 0.2], [P, P, P, P], id="above the threshold it progresses"),
        pytest.param([10, 1], [P, P, W], id="exactly at the threshold is slow"),
        pytest.param([1, 0.05, 0.05], [P, P, W, C], id="slow twice is converged"),
        pytest.param([1, 0.05, 0.5, 0.05], [P, P, W, P, W], id="growth in between begins it all anew"),
        pytest.param([1, 0.05, 0.05, 0.05, 0.05], [P, P, W, C, C, C], id="converged it stays while it is slow"),
        pytest.param([1, 0, 0, 0.5], [P, P, W, C, P], id="it recovers from converged in one check"),
        pytest.param([1, 0, 0, -0.5, 0, 0], [P, P, W, C, P, W, C], id="getting worse is a change too"),
        pytest.param([1, 0, 0, 20, 1], [P, P, W, C, P, W], id="what is slow depends on the largest growth so far"),
        pytest.param([0, 0, 1], [P, W, C, P], id="what never grew has settled until it does"),
    ],
)
def test_voda_35_scripted_jobs(gains, expected):
    assert categories(Judge(), growing_by(*gains)) == expected


@pytest.mark.parametrize(
    ("judge", "gains", "expected"),
    [
        pytest.param(Judge(threshold=0.5), [1, 0.4, 0.4], "PWC", id="a higher threshold converges sooner"),
        pytest.param(Judge(threshold=0.01), [1, 0.05, 0.05], "P", id="a lower one later"),
        pytest.param(Judge(mode=Mode.RAW), [5, 2, 2], "P", id="raw growth is compared as it is"),
        pytest.param(Judge(mode=Mode.RAW), [1, 0.9, 0.8], "PWC", id="so that a small value seems converged at once"),
        pytest.param(Judge(confirmations=3), [1, 0, 0, 0], "PW", id="too few confirmations"),
        pytest.param(Judge(confirmations=3), [1, 0, 0, 0, 0], "PWC", id="enough confirmations"),
        pytest.param(Judge(confirmations=2), [1, 0, 0, 1, 0, 0], "PWPW", id="confirmations are counted anew"),
        pytest.param(Judge(settle_checks=3), [0, 0, 0], "P", id="a slow start is not judged"),
        pytest.param(Judge(settle_checks=3), [0, 0, 0, 0, 0], "PWC", id="unless it goes on"),
    ],
)
def test_voda_35_what_can_be_set(judge, gains, expected):
    assert changes(categories(judge, growing_by(*gains))) == expected


def test_voda_35_since_says_when_the_category_began():
    judged = after(Judge(), growing_by(1, 0, 0, 0, 0), start_s=100.0)
    assert judged.growth.category is C
    assert judged.growth.since_s == 130.0


def test_voda_35_since_is_the_first_value_of_a_job_that_progresses():
    assert after(Judge(), growing_by(1, 1, 1), start_s=70.0).growth.since_s == 70.0


@pytest.mark.parametrize("seed", range(20))
def test_voda_35_noise_is_evened_out_over_several_checks(seed):
    """Noise of a tenth of the first growth: over ten checks it neither hides convergence nor seems to be growth."""
    chance = random.Random(seed)
    noisy = [value + chance.gauss(0, 0.01) for value in saturating(120, rate=1 / 10)]
    found = categories(Judge(median_of=5, over_checks=10, confirmations=3), noisy)
    assert found[-1] is C
    assert not {W, C} & set(found[:15])  # here it still gains a fifth of what it gained at first
    assert C not in found[:25]


@pytest.mark.parametrize("seed", range(20))
def test_voda_35_noisy_but_steady_growth_does_not_converge(seed):
    chance = random.Random(seed)
    noisy = [0.01 * check + chance.gauss(0, 0.005) for check in range(120)]
    assert C not in categories(Judge(median_of=5, over_checks=10, confirmations=3), noisy)


def test_voda_35_a_single_spike_is_passed_over_by_the_median():
    values = saturating(80)
    values[5] = 40.0
    undisturbed = categories(Judge(median_of=3), saturating(80))
    assert categories(Judge(median_of=3), values).index(C) == pytest.approx(undisturbed.index(C), abs=1)


def test_voda_35_without_the_median_a_spike_is_the_largest_growth_ever():
    """Why the median is there: all that follows looks slow beside it."""
    values = saturating(12)
    values[5] = 40.0
    assert categories(Judge(), values)[-1] is C


class TestAfterARestart:
    def test_a_value_that_stood_still_over_the_pause_is_no_convergence(self):
        moved = after(Judge(), growing_by(1, 1, 1)).restarted(95.0)
        judged = moved.seen(100.0, 3.0)  # resumed where it was
        assert judged.growth.category is P
        assert judged.seen(110.0, 4.0).growth.score == 1.0

    def test_without_it_the_same_values_would_have_been_watched(self):
        assert after(Judge(), growing_by(1, 1, 1)).seen(100.0, 3.0).growth.category is W

    def test_a_jump_over_the_pause_is_no_recovery(self):
        converged = after(Judge(), growing_by(1, 0, 0))
        moved = converged.restarted(95.0).seen(100.0, 0.2).seen(110.0, 0.2)
        assert converged.growth.category is C
        assert moved.growth.category is C

    def test_what_was_learned_stays(self):
        moved = after(Judge(), growing_by(1, 0.5)).restarted(95.0)
        assert moved.growth == after(Judge(), growing_by(1, 0.5)).growth
        assert moved.seen(100.0, 1.5).seen(110.0, 1.55).growth.score == pytest.approx(0.05)

    def test_values_from_before_it_that_come_late_are_passed_over(self):
        moved = after(Judge(), growing_by(1, 1)).restarted(60.0)
        assert moved.seen(59.0, 9.0) is moved

    def test_it_may_be_told_with_the_first_value_after_it(self):
        moved = after(Judge(), growing_by(1, 1)).restarted(60.0).seen(60.0, 2.0)
        assert moved.seen(60.0, 9.0) is moved
        assert moved.seen(70.0, 2.5).growth.score == pytest.approx(0.5)

    def test_checks_to_settle_are_not_judged(self):
        moved = after(Judge(settle_checks=2), growing_by(1, 1, 1, 1, 1)).restarted(60.0)
        for at_s in (70.0, 80.0, 90.0):
            moved = moved.seen(at_s, 5.0)
        assert moved.growth.category is P
        assert moved.seen(100.0, 5.0).growth.category is W

    def test_a_clock_that_was_ahead_heals(self):
        judged = after(Judge(), growing_by(1, 1), start_s=1e9).restarted(50.0).seen(60.0, 2.0).seen(70.0, 3.0)
        assert judged.growth.score == 1.0

    @pytest.mark.parametrize("at_s", [math.nan, math.inf, -math.inf])
    def test_at_no_moment_at_all_it_is_still_one(self, at_s):
        moved = after(Judge(), growing_by(1, 1, 1)).restarted(at_s)
        assert moved.seen(100.0, 3.0).growth.category is P

    def test_before_the_first_value_it_means_nothing(self):
        assert Judged.fresh(Judge()).restarted(5.0) == Judged.fresh(Judge())
