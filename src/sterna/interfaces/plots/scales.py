"""From numbers to positions, and where an axis puts its ticks. Time gets ticks that people know: minutes, hours."""

import math
from dataclasses import dataclass

MINUTE_S, HOUR_S, DAY_S, YEAR_S = 60.0, 3600.0, 86400.0, 365 * 86400.0

# steps a clock or a calendar would take, in seconds
_TIME_STEPS = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(count * MINUTE_S for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR_S for count in (1, 2, 3, 6, 12)),
    *(count * DAY_S for count in (1, 2, 5, 10, 20, 50, 100, 200)),
)
_TIME_MARKS = (
    *(0.001, 0.01, 0.1, 1.0, 10.0),
    *(count * MINUTE_S for count in (1, 10)),
    *(count * HOUR_S for count in (1, 6)),
    *(count * DAY_S for count in (1, 7, 30)),
    *(count * YEAR_S for count in (1, 10, 100)),
)


@dataclass(frozen=True, slots=True)
class Linear:
    low: float
    high: float
    from_px: float
    to_px: float

    def __call__(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        part = min(1.0, max(0.0, (value - self.low) / span))
        return self.from_px + part * (self.to_px - self.from_px)


@dataclass(frozen=True, slots=True)
class Log:
    low: float  # above 0
    high: float
    from_px: float
    to_px: float

    def __call__(self, value: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        part = min(1.0, max(0.0, math.log(max(value, self.low) / self.low) / span))
        return self.from_px + part * (self.to_px - self.from_px)


Scale = Linear | Log  # called with a number, each gives a position in pixels; what lies outside is put on the border


def nice_ticks(high: float, *, about: int = 5) -> tuple[float, ...]:
    """Round numbers from 0 to the first one not below `high`, so that the last tick closes the axis."""
    if not high > 0:
        return (0.0, 1.0)
    rough = high / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    count = math.ceil(high / step - 1e-9)
    return tuple(step * position for position in range(count + 1))


def time_ticks(high_s: float, *, about: int = 7) -> tuple[float, ...]:
    """Clock-like steps from 0 up to `high_s`."""
    rough = max(high_s, 1e-9) / about
    step = next((step for step in _TIME_STEPS if step >= rough), None)
    if step is None:
        return tuple(year * YEAR_S for year in nice_ticks(high_s / YEAR_S, about=about) if year * YEAR_S <= high_s)
    return tuple(step * position for position in range(int(high_s / step + 1e-9) + 1))


def log_time_ticks(low_s: float, high_s: float) -> tuple[float, ...]:
    """Durations with a name between two others; where there are fewer than three, round numbers instead."""
    marks = tuple(mark for mark in _TIME_MARKS if low_s <= mark <= high_s)
    if len(marks) >= 3:
        return marks
    inside = tuple(tick for tick in time_ticks(high_s, about=5) if tick >= low_s and tick > 0)
    return inside or (low_s, high_s)


def duration(seconds: float) -> str:
    """A length of time in at most two units: `45 s`, `12 min`, `3 h 20 min`, `5 d 4 h`, `1.2 y`."""
    if seconds < 1:
        return f"{seconds:.3g} s" if seconds else "0"
    if seconds >= YEAR_S:
        return f"{seconds / YEAR_S:.3g} y"
    for unit_s, unit, small_s, small in _UNITS:
        if seconds >= unit_s - small_s / 2:
            whole, rest = divmod(round(seconds / small_s), round(unit_s / small_s))
            return f"{whole} {unit} {rest} {small}" if rest else f"{whole} {unit}"
    return f"{seconds:.1f} s".replace(".0 s", " s")


_UNITS = ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "min"), (MINUTE_S, "min", 1.0, "s"))
