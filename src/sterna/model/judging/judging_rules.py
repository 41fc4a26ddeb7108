"""The rules: what a check is a sign of. Each reads like the paragraph of the program it comes from.

`specon` is the paper's: a fixed threshold. `loglinear` is what container-migration meant to do: the threshold is fitted
to the job's own growth, again at every check, and the fit's uncertainty must be overcome before anything is certain.
It has no scale of its own, so that a clean exponential curve would be converged at its fifth value, and on a flat and
noisy tail every second value would be growth. Therefore nothing is certain here before both the growth and what the fit
expects of it are down at the threshold, and nothing below the threshold is growth. `compat` is what container-migration
does: its regression runs once, at the third growth, and is 0 otherwise.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sterna.model.judging.categories import Sign
from sterna.model.judging.judge import Judge, Rule
from sterna.model.judging.trend import Rate, trend_of

ROUNDING = 1e-9  # a rate this much above the line is on it


class Finding(NamedTuple):
    """What a check found."""

    unit: float  # the rate whose score is 1
    rates: tuple[Rate, ...]  # the check's own is the last
    number: int  # of rates found so far, this one included

    @property
    def rate(self) -> float:
        return self.rates[-1].rate

    @property
    def score(self) -> float:
        return self.rates[-1].rate / self.unit

    @property
    def previous(self) -> float:
        return self.rates[-2].rate if len(self.rates) > 1 else 0.0


def _specon(judge: Judge, found: Finding) -> Sign:
    return Sign.GROWING if found.score > judge.threshold else Sign.SETTLING


def _loglinear(judge: Judge, found: Finding) -> Sign:
    trend = trend_of(found.rates)
    alpha, beta = (0.0, 0.0) if trend is None else trend
    if found.score > judge.threshold and found.rate > alpha * (1 + ROUNDING):
        return Sign.GROWING
    if max(found.rate, alpha) > judge.threshold * found.unit:
        return Sign.SLOWING
    stands_still = found.rate == 0.0  # has no logarithm, and is as settled as can be
    return Sign.SETTLING if stands_still or found.rate * (1 + beta) < found.previous else Sign.SLOWING


def _compat(judge: Judge, found: Finding) -> Sign:
    alpha, beta = 0.0, 0.0
    if found.number == 3:
        if any(entry.rate == 0.0 for entry in found.rates):
            alpha = beta = math.nan  # the logarithm of 0 went into the sums, so every comparison is false
        else:
            trend = trend_of(found.rates)
            alpha, beta = (0.0, 0.0) if trend is None else trend
    if found.rate > alpha:
        return Sign.GROWING
    return Sign.SETTLING if found.rate * (1 + beta) < found.previous else Sign.SLOWING


RULES: Mapping[Rule, Callable[[Judge, Finding], Sign]] = {
    Rule.SPECON: _specon,
    Rule.LOGLINEAR: _loglinear,
    Rule.COMPAT: _compat,
}
