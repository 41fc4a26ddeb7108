"""Time as this engine meets it: the wall clock for what people read, the machine's own for how long things last."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def wall(self) -> float:
        """Seconds since 1970 (UTC); may jump."""
        ...

    def mono(self) -> float:
        """Seconds that only ever grow, and that go on while the machine sleeps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def wall(self) -> float:
        return time.time()

    def mono(self) -> float:
        # CLOCK_MONOTONIC stands still in a suspended machine, whose lease runs out all the same.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Timeline:
    """Moments of the operator: seconds since 1970 that no jump of the wall clock can move while it runs.

    They start from the wall clock of the machine; from there on only the monotonic clock counts, so that no deadline is
    shortened or stretched when the wall clock is set. Moments that other machines wrote are shown, and decide nothing.
    """

    __slots__ = ("_ahead_s", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = clock.wall() - clock.mono()

    def now(self) -> float:
        return self._ahead_s + self._clock.mono()
