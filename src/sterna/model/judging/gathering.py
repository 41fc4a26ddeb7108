"""From what is reported to points that can be compared: which values are usable, merging, smoothing. Values only."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from sterna.model.judging.judge import Judge, Merge, Mode

VALUE_MAX = 1e30  # a larger one was not measured, but overflowed
MOMENT_MAX_S = 1e15
ELAPSED_MIN_S = 1e-6  # moments closer than this are the same, as far as clocks go
CPU_MILLI_MIN = 1.0


class Point(NamedTuple):
    at_s: float
    value: float


class Gathered(NamedTuple):
    """What was reported since the last check: running means, so that a constant stays exactly what it is."""

    values: int = 0
    at_s: float = 0.0
    value: float = 0.0
    measured: int = 0  # how many of them came with the CPU used
    cpu_milli: float = 0.0

    def and_also(self, at_s: float, value: float, cpu_milli: float | None, merge: Merge) -> "Gathered":
        values, measured, cpu = self.values + 1, self.measured, self.cpu_milli
        if cpu_milli is not None and CPU_MILLI_MIN <= cpu_milli <= VALUE_MAX:
            measured += 1
            cpu += (cpu_milli - cpu) / measured
        if merge is Merge.LATEST:
            return Gathered(values, at_s, value, measured, cpu)
        mean_at_s = self.at_s + (at_s - self.at_s) / values  # the mean of their moments: else the first rate is too low
        return Gathered(values, mean_at_s, self.value + (value - self.value) / values, measured, cpu)

    @property
    def cpus(self) -> float | None:
        return self.cpu_milli / 1000 if self.measured else None


def is_usable(at_s: float, value: float) -> bool:
    """Finite, and of a size that something measured can have."""
    return abs(value) <= VALUE_MAX and abs(at_s) <= MOMENT_MAX_S


def smoothed(checks: Sequence[Point]) -> Point:
    """The median of the values, at the median of their moments: on a straight line that is a point of the line."""
    if len(checks) == 1:
        return checks[0]
    return Point(median([check.at_s for check in checks]), median([check.value for check in checks]))


def rate_of(points: Sequence[Point], judge: Judge) -> float:
    """How much the value changed from the first of these points to the last: by the second, or by its own size."""
    first, last = points[0], points[-1]
    change = abs(last.value - first.value)
    if judge.mode is Mode.RELATIVE:
        size = max(abs(first.value), abs(last.value))  # the larger of the two, so that a value of 0 does no harm
        return change / size if size else 0.0
    # Half an interval at least: values that crowd behind the last check must not make noise look like a steep slope.
    return change / max(last.at_s - first.at_s, judge.check_interval_s / 2, ELAPSED_MIN_S)
