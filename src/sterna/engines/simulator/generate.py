"""Made-up traces that look like real ones: arrivals by a pattern, log-normal durations, sizes in powers of two.

The same arguments give the same rows everywhere: the only chance used is a stream of uniform numbers, which NumPy keeps
stable from version to version as it does not keep its distributions. Rows only; `wire/traces` writes them to files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.trace import TraceRow

T = TypeVar("T")

HOUR_S = 3600.0
JOBS_LIMIT = 1_000_000


class Pattern(StrEnum):
    POISSON = "poisson"  # as likely at any moment
    BURSTY = "bursty"  # half of all jobs come in the first tenth of every two hours
    DIURNAL = "diurnal"  # a wave over the day: ten times as many at its height as at its low


class Category(NamedTuple):
    """A kind of training. Serial fractions span what is published, from vision models to chatty recommenders."""

    name: str
    share: float  # of all jobs
    serial_fraction: float
    batch_per_worker: int


CATEGORIES = (
    Category("vision-small", 0.30, 0.05, 64),
    Category("vision-large", 0.25, 0.02, 32),
    Category("language", 0.20, 0.04, 8),
    Category("speech", 0.15, 0.08, 16),
    Category("recommender", 0.10, 0.20, 1024),
)
SIZES = ((1, 0.46), (2, 0.18), (4, 0.20), (8, 0.12), (16, 0.04))  # workers asked for, and their share of all jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What the jobs of a generated trace are like. With the defaults, 60 jobs an hour keep nearly 70 GPUs busy."""

    duration_median_s: float = 600.0
    duration_sigma: float = 1.2  # of the logarithm: two thirds lie within a factor of 3.3 either way
    duration_max_s: float = 24 * HOUR_S
    rigid_share: float = 0.2  # of the jobs take exactly what they ask for
    workers_max: int = 32


def generate(
    jobs: int,
    pattern: Pattern | str = Pattern.POISSON,
    *,
    rate_per_hour: float = 60.0,
    seed: int = 0,
    mix: Mix | None = None,
) -> tuple[TraceRow, ...]:
    """So many jobs, arriving by the pattern at this rate on average."""
    pattern = _checked(jobs, pattern, rate_per_hour, seed)
    mix = mix or Mix()
    chance = np.random.Generator(np.random.PCG64(seed)).random((6, jobs))
    arrivals = _arrivals(chance[0], pattern, rate_per_hour)
    return tuple(
        _row(number, submitted_s, chance[1:, number].tolist(), mix) for number, submitted_s in enumerate(arrivals)
    )


def _row(number: int, submitted_s: float, chance: Sequence[float], mix: Mix) -> TraceRow:
    size_u, duration_u, category_u, rigid_u, reach_u = chance
    workers = min(_pick(SIZES, size_u), mix.workers_max)
    category = _pick([(category, category.share) for category in CATEGORIES], category_u)
    spread = mix.duration_sigma * NormalDist().inv_cdf(min(max(duration_u, 1e-9), 1 - 1e-9))
    rigid = rigid_u < mix.rigid_share
    reach = 2 if reach_u < 0.5 else 4  # how far an elastic job stretches either way
    return TraceRow(
        id=JobId(f"job-{number:06}"),
        line=0,
        submitted_s=submitted_s,
        workers=workers,
        workers_min=workers if rigid else max(1, workers // reach),
        workers_max=workers if rigid else min(max(workers, mix.workers_max), workers * reach),
        duration_s=float(round(min(max(60.0, mix.duration_median_s * math.exp(spread)), mix.duration_max_s))),
        serial_fraction=category.serial_fraction,
        category=category.name,
        batch_size=workers * category.batch_per_worker,
        name=f"{category.name}-{number}",
    )


def _pick(choices: Sequence[tuple[T, float]], chance: float) -> T:
    for choice, share in choices:
        chance -= share
        if chance < 0:
            return choice
    return choices[-1][0]


def _arrivals(chance: NDArray[np.float64], pattern: Pattern, rate_per_hour: float) -> list[float]:
    """Whole seconds: a steady Poisson process, its clock stretched so that the rate follows the pattern."""
    steady = np.cumsum(-np.log1p(-chance)) / rate_per_hour * HOUR_S
    period_s, weights = _SHAPES[pattern]
    edges = np.linspace(0.0, period_s, len(weights) + 1)
    work = np.concatenate(([0.0], np.cumsum(weights))) * (period_s / sum(weights))
    whole, rest = np.divmod(steady, period_s)
    return [float(moment) for moment in np.floor(whole * period_s + np.interp(rest, work, edges))]


_SHAPES: dict[Pattern, tuple[float, list[float]]] = {  # a period, and how likely arrivals are in each part of it
    Pattern.POISSON: (HOUR_S, [1.0]),
    Pattern.BURSTY: (2 * HOUR_S, [9.0] + [1.0] * 9),
    Pattern.DIURNAL: (24 * HOUR_S, [1.0 + 9 / 11 * math.sin(2 * math.pi * (hour + 0.5) / 24) for hour in range(24)]),
}


def _checked(jobs: int, pattern: Pattern | str, rate_per_hour: float, seed: int) -> Pattern:
    if seed < 0:
        raise InvalidRequest(field="seed", value=seed, expected="a whole number, at least 0")
    if not 1 <= jobs <= JOBS_LIMIT:
        raise InvalidRequest(field="jobs", value=jobs, expected=f"from 1 to {JOBS_LIMIT}")
    if not 0 < rate_per_hour < math.inf:
        raise InvalidRequest(field="rate", value=rate_per_hour, expected="jobs per hour, a finite number above 0")
    try:
        return Pattern(pattern)
    except ValueError:
        expected = "one of: " + ", ".join(Pattern)
        raise InvalidRequest(field="pattern", value=str(pattern), expected=expected) from None
