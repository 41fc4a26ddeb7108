"""Where axes put their ticks, and how lengths of time are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.interfaces.plots.scales import Linear, Log, duration, log_time_ticks, nice_ticks, time_ticks

YEAR_S = 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(0, "0", id="nothing has no unit"),
        pytest.param(0.25, "0.25 s", id="parts of a second"),
        pytest.param(12.5, "12.5 s", id="seconds with a decimal where it says something"),
        pytest.param(59.9, "1 min", id="almost a minute is a minute, not 60 s"),
        pytest.param(90, "1 min 30 s", id="two units at most"),
        pytest.param(3599.9, "1 h", id="almost an hour is an hour, not 60 min"),
        pytest.param(3 * 3600 + 20 * 60 + 5, "3 h 20 min", id="hours leave seconds out"),
        pytest.param(86399, "1 d", id="almost a day is a day, not 24 h"),
        pytest.param(5 * 86400 + 4 * 3600, "5 d 4 h", id="days and hours"),
        pytest.param(1.5 * YEAR_S, "1.5 y", id="years"),
    ],
)
def test_durations_are_written_as_people_say_them(seconds, expected):
    assert duration(seconds) == expected


@given(high=st.floats(1e-6, 1e12))
def test_nice_ticks_are_few_and_cover_what_they_measure(high):
    ticks = nice_ticks(high)
    assert ticks[0] == 0
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 12


@given(high=st.floats(1.0, 1e10))
def test_time_ticks_are_few_and_stay_inside(high):
    ticks = time_ticks(high)
    assert 1 <= len(ticks) <= 12
    assert 0 == ticks[0] <= ticks[-1] <= high * (1 + 1e-9)


@given(low=st.floats(1.0, 1e8), factor=st.floats(1.01, 1e6))
def test_log_ticks_lie_between_the_ends(low, factor):
    ticks = log_time_ticks(low, low * factor)
    assert ticks
    assert all(low <= tick <= low * factor for tick in ticks)
    assert list(ticks) == sorted(set(ticks))


@given(value=st.floats(-1e9, 1e9), high=st.floats(1.5, 1e6))
def test_whatever_is_drawn_stays_on_the_paper(value, high):
    for scale in (Linear(0, high, 10, 100), Log(1, high, 10, 100), Linear(0, high, 100, 10)):
        assert 10 - 1e-9 <= scale(value) <= 100 + 1e-9
