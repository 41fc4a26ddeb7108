"""How fast a job trains, from how far it says it has come."""

import pytest

from sterna.lifecycle.speed import POINTS_KEPT, Mark, measured, plausible, with_point
from sterna.model.jobs import ProgressPoint

BEGAN = Mark(100.0, 50.0, 2, "first")


@pytest.mark.parametrize(
    ("began", "here", "expected"),
    [
        pytest.param(None, BEGAN, (BEGAN, None), id="the first that was told"),
        pytest.param(BEGAN, Mark(110.0, 55.0, 2, "first"), (Mark(110.0, 55.0, 2, "first"), 0.5), id="5 s for 10 units"),
        pytest.param(BEGAN, Mark(110.0, 51.9, 2, "first"), (BEGAN, None), id="too short to tell: it goes on"),
        pytest.param(BEGAN, Mark(100.0, 90.0, 2, "first"), (BEGAN, None), id="nothing was done yet: it goes on"),
        pytest.param(
            BEGAN, Mark(110.0, 55.0, 3, "first"), (Mark(110.0, 55.0, 3, "first"), None), id="one more worker since then"
        ),
        pytest.param(
            BEGAN, Mark(110.0, 55.0, 2, "other"), (Mark(110.0, 55.0, 2, "other"), None), id="another process says so"
        ),
        pytest.param(
            BEGAN, Mark(90.0, 55.0, 2, "first"), (Mark(90.0, 55.0, 2, "first"), None), id="it went back to a checkpoint"
        ),
        pytest.param(
            BEGAN, Mark(1e15, 55.0, 2, "first"), (Mark(1e15, 55.0, 2, "first"), None), id="faster than anything can be"
        ),
    ],
)
def test_a_measurement(began, here, expected):
    assert measured(began, here) == expected


@pytest.mark.parametrize(("unit_s", "expected"), [(None, None), (0.5, 0.5), (0.0, None), (1e13, None)])
def test_speeds_that_can_be_meant(unit_s, expected):
    assert plausible(unit_s) == expected


def test_only_the_latest_measurements_are_kept():
    points: tuple[ProgressPoint, ...] = ()
    for number in range(POINTS_KEPT + 5):
        points = with_point(points, ProgressPoint(float(number), 1.0, 1, 1.0))
    assert (len(points), points[0].at_s) == (POINTS_KEPT, 5.0)
