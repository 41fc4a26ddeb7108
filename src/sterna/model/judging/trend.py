"""A straight line through the logarithm of growth: what growth to expect now, and how uncertain that is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

SPREAD_MIN = 1e-20
EXPONENT_MAX = 700.0  # what is beyond has no float, and is no growth either


class Rate(NamedTuple):
    at_s: float  # in seconds of training that were judged: pauses do not count
    rate: float


class Trend(NamedTuple):
    alpha: float  # growth that the line expects at the last point
    beta: float  # 1 - R²: the share of the ups and downs that the line does not explain


def trend_of(rates: Sequence[Rate]) -> Trend | None:
    """The line through `rates`, those without any growth left out. None: fewer than three points are no trend."""
    moments = [entry.at_s for entry in rates if entry.rate > 0.0]
    logarithms = [math.log(entry.rate) for entry in rates if entry.rate > 0.0]
    if len(moments) < 3:
        return None
    mean_x, mean_y = sum(moments) / len(moments), sum(logarithms) / len(moments)
    spread_x = spread_y = together = 0.0
    for moment, logarithm in zip(moments, logarithms, strict=True):
        x, y = moment - mean_x, logarithm - mean_y
        spread_x += x * x
        spread_y += y * y
        together += x * y
    if spread_x < SPREAD_MIN or spread_y < SPREAD_MIN:  # all alike but for rounding: nothing is left to explain
        return Trend(alpha=math.exp(mean_y), beta=0.0)
    expected = mean_y + together / spread_x * (moments[-1] - mean_x)
    return Trend(
        alpha=math.exp(min(expected, EXPONENT_MAX)),
        beta=min(1.0, max(0.0, 1.0 - together * together / (spread_x * spread_y))),
    )
