"""The log-linear fit: what container-migration meant, and what it does. The oracle follows the specification."""

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged, Rule
from sterna.model.judging.trend import Rate, trend_of
from tests.model.judging.curves import after, categories, changes, growing_by, saturating

P, W, C = Category.PROGRESSING, Category.WATCHING, Category.CONVERGED
COMPAT = Judge(rule=Rule.COMPAT)
FIXED = (Judge(), Judge(rule=Rule.LOGLINEAR))


@pytest.mark.parametrize("judge", FIXED, ids=lambda judge: str(judge.rule))
@pytest.mark.parametrize("rate", [1 / 4, 1 / 8, 1 / 30])
def test_dragon_37_a_saturating_curve_goes_through_the_categories_in_order(judge, rate):
    assert changes(categories(judge, saturating(200, rate=rate))) == "PWC"


@pytest.mark.parametrize("judge", FIXED, ids=lambda judge: str(judge.rule))
def test_dragon_37_it_converges_when_growth_is_down_at_the_threshold_and_not_before(judge):
    found = categories(judge, saturating(200))
    at_threshold = 8 * math.log(1 / judge.threshold)  # checks after which a gain is a tenth of the first
    assert found.index(C) == pytest.approx(at_threshold + 2, abs=1.5)


@pytest.mark.parametrize("judge", FIXED, ids=lambda judge: str(judge.rule))
@pytest.mark.parametrize("slope", [1e-9, 0.003, 1 / 3, 12345.678])
def test_dragon_37_linear_growth_never_converges(judge, slope):
    assert C not in categories(judge, [0.7 + slope * check for check in range(500)])


@pytest.mark.parametrize("judge", FIXED, ids=lambda judge: str(judge.rule))
@pytest.mark.parametrize("seed", range(10))
def test_dragon_37_linear_growth_with_some_noise_never_converges(judge, seed):
    chance = random.Random(seed)
    gains = [chance.uniform(0.5, 1.5) for _ in range(300)]
    assert C not in categories(judge, growing_by(*gains))


@pytest.mark.parametrize("seed", range(20))
def test_dragon_37_a_noisy_saturating_curve_converges_by_the_fixed_fit(seed):
    chance = random.Random(seed)
    noisy = [value + chance.gauss(0, 0.01) for value in saturating(120, rate=1 / 10)]
    found = categories(Judge(rule=Rule.LOGLINEAR, median_of=5, over_checks=5), noisy)
    assert found[-1] is C
    assert C not in found[:20]


def test_dragon_37_the_fit_is_made_again_at_every_check():
    """Fast decay, then slow: a fit that was made once would take all of the second stretch for growth."""
    gains = [math.exp(-check / 3) for check in range(7)] + [0.12 * math.exp(-check / 40) for check in range(60)]
    judge = Judge(rule=Rule.LOGLINEAR, threshold=0.05)
    found = categories(judge, growing_by(*gains))
    assert found[-1] is C
    assert W in found[20:45]


@pytest.mark.parametrize("judge", FIXED, ids=lambda judge: str(judge.rule))
@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        pytest.param([1, 0, 0, 0], [P, P, W, C, C], id="growth that stops dead is converged"),
        pytest.param([1, 0, 0, 1, 1], [P, P, W, C, P], id="and recovers"),
        pytest.param([0, 0, 0, 1, 1], [P, W, C, C, P], id="growth that never was, until it is"),
    ],
)
def test_dragon_37_zero_growth_has_no_logarithm_and_does_no_harm(judge, gains, expected):
    found = categories(judge, growing_by(*gains))
    assert found[: len(expected)] == expected


def test_dragon_37_zero_growth_between_growth_leaves_the_fit_finite():
    gains = [value for check in range(12) for value in (math.exp(-check / 3), 0.0)]
    judged = after(Judge(rule=Rule.LOGLINEAR), growing_by(*gains))
    trend = trend_of(judged.rates)
    assert trend is not None
    assert 0 < trend.alpha < 1
    assert trend.beta == pytest.approx(0, abs=1e-6)


def test_the_fit_of_an_exponential_is_exact():
    trend = trend_of([Rate(at_s, 3 * math.exp(-at_s / 50)) for at_s in range(0, 100, 10)])
    assert trend is not None
    assert trend.alpha == pytest.approx(3 * math.exp(-90 / 50))
    assert trend.beta == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_points_are_no_trend(count):
    assert trend_of([Rate(float(number), 1.0) for number in range(count)]) is None


def test_the_fit_forgets_what_is_outside_its_window():
    judged = after(Judge(rule=Rule.LOGLINEAR, window=5), saturating(50))
    assert len(judged.rates) == 5


def test_pauses_do_not_stretch_the_fit():
    """Two parts of one curve with an hour between them: the fit sees one curve."""
    whole = saturating(18)
    judged = after(Judge(rule=Rule.LOGLINEAR), whole[:13]).restarted(3700.0)
    for number, value in enumerate(whole[12:]):
        judged = judged.seen(3720.0 + number * 10.0, value)
    trend = trend_of(judged.rates)
    assert trend is not None
    assert trend.beta < 1e-6


def test_one_bad_check_amid_steady_growth_is_no_convergence():
    found = categories(Judge(rule=Rule.LOGLINEAR), growing_by(*[1.0] * 9, 0.05, 0.05, 1.0, 1.0))
    assert C not in found


def test_slow_growth_that_rises_is_in_doubt():
    found = categories(Judge(rule=Rule.LOGLINEAR), growing_by(1.0, 0.3, 0.09, 0.095, 0.02))
    assert found == [P, P, P, W, W, C]


def test_a_fit_of_the_smallest_and_the_largest_rates_is_still_a_number():
    """Leverage: many points low, as many high a moment later, and the last one far behind them."""
    low = [Rate(number * 1e-3, 1e-300) for number in range(50)]
    high = [Rate(1 + number * 1e-3, 1e36) for number in range(49)]
    trend = trend_of([*low, *high, Rate(6.0, 1e36)])
    assert trend is not None
    assert math.isfinite(trend.alpha)


# What the specification says of container-migration's program, 3.4: growth by the millisecond, a regression that needs
# three points and refuses to run twice, nothing merged, nothing smoothed.
def as_container_migration(samples: list[tuple[float, float]]) -> list[Category]:
    category, previous, growths, found = P, 0.0, [], []
    for number, (at_s, value) in enumerate(samples):
        if number:
            elapsed_ms = (at_s - samples[number - 1][0]) * 1000
            growth = abs(value - samples[number - 1][1]) / elapsed_ms
            growths.append((at_s * 1000, growth))
            alpha, beta = once_fitted(growths) if len(growths) == 3 else (0.0, 0.0)
            if growth > alpha:
                category = P
            elif category is P:
                category = W
            elif growth * (1 + beta) < previous:
                category = C
            previous = growth
        found.append(category)
    return found


def once_fitted(growths: list[tuple[float, float]]) -> tuple[float, float]:
    if any(growth == 0 for _, growth in growths):
        return math.nan, math.nan
    xs, ys = [x for x, _ in growths], [math.log(growth) for _, growth in growths]
    mean_x, mean_y = math.fsum(xs) / 3, math.fsum(ys) / 3
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / math.fsum(
        (x - mean_x) ** 2 for x in xs
    )
    predicted = [mean_y + slope * (x - mean_x) for x in xs]
    total = math.fsum((y - mean_y) ** 2 for y in ys)
    left = math.fsum((y - fitted) ** 2 for y, fitted in zip(ys, predicted, strict=True))
    return math.exp(predicted[-1]), left / total if total else math.nan


def is_on_the_line(gains: list[float]) -> bool:
    if len(gains) < 3 or 0.0 in gains:
        return False
    alpha, _ = once_fitted([(float(number), abs(gain)) for number, gain in enumerate(gains)])
    return math.isclose(alpha, abs(gains[-1]), rel_tol=1e-6)


gains = st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.13, 0.4, -0.3]), max_size=12)


@given(gains=gains, every_s=st.sampled_from([0.25, 1.0, 10.0, 60.0]))
def test_dragon_37_compat_does_what_container_migration_does(gains, every_s):
    samples = [(number * every_s, value) for number, value in enumerate(growing_by(*gains))]
    assume(not is_on_the_line(gains[:3]))  # where rounding would decide
    expected = as_container_migration(samples)
    assert categories(COMPAT, [value for _, value in samples], every_s=every_s) == expected


def test_dragon_37_compat_is_tested_with_all_categories():
    """Evaluation 4 below the fit and evaluation 5 without any change: the one way to Converged."""
    values = growing_by(1.0, 0.9, 0.5, 0.0, 0.0, 0.1)
    expected = [P, P, P, W, C, C, P]
    assert as_container_migration([(float(number), value) for number, value in enumerate(values)]) == expected
    assert categories(COMPAT, values, every_s=1.0) == expected


def test_dragon_37_compat_never_sees_2000_noisy_saturating_curves_converge():
    chance = random.Random(37)
    converged = 0
    for _ in range(2000):
        rate, noise = chance.uniform(0.02, 0.5), chance.uniform(0.0005, 0.05)
        values = [value + chance.gauss(0, noise) for value in saturating(40, rate=rate)]
        converged += C in categories(COMPAT, values, every_s=2.0)
    assert converged == 0


def test_dragon_37_compat_judges_every_value_whatever_else_is_set():
    set_otherwise = Judge(rule=Rule.COMPAT, check_interval_s=100, median_of=5, over_checks=5, confirmations=9)
    values = growing_by(1.0, 0.9, 0.5, 0.0)
    assert categories(set_otherwise, values, every_s=1.0)[-1] is C


def test_dragon_37_compat_forgets_a_pod_that_was_silent_for_over_a_minute():
    converged = after(COMPAT, growing_by(1.0, 0.9, 0.5, 0.0), every_s=1.0)
    assert converged.seen(64.0, 2.4).growth.category is C
    assert converged.seen(64.5, 2.4).growth == Judged.fresh(COMPAT).seen(64.5, 2.4).growth


def test_dragon_37_compat_forgets_a_pod_that_was_moved():
    converged = after(COMPAT, growing_by(1.0, 0.9, 0.5, 0.0), every_s=1.0)
    assert converged.restarted(5.0) == Judged.fresh(COMPAT)
