"""Time as the local engine keeps it: moments that no jump of the wall clock can move.

Moments are seconds since 1970 (UTC) as the wall clock had them when the timeline was first drawn; from there on only
the monotonic clock counts. Both are kept in the store, and the monotonic clock is the machine's, so a restarted engine
goes on with the same timeline: no deadline, back-off or grace period is shortened or stretched when the wall clock
is set. A machine that was booted anew begins a new timeline, never before the latest moment of the old one.
"""

import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    def wall(self) -> float:
        """Seconds since 1970; may jump."""
        ...

    def mono(self) -> float:
        """Seconds of CLOCK_MONOTONIC: the same in all processes until the machine is booted again."""
        ...


class SystemClock:
    def wall(self) -> float:
        return time.time()

    def mono(self) -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)


class Anchor(NamedTuple):
    """One moment on both clocks."""

    boot: str  # names the run of the machine that `mono_s` belongs to
    moment_s: float
    mono_s: float


def anchored(clock: Clock, *, boot: str, previous: Anchor | None, latest_s: float) -> Anchor:
    """The anchor to go on with: the previous one within the same boot, else one that never goes back."""
    mono_s = clock.mono()
    if previous is not None and previous.boot == boot and mono_s >= previous.mono_s:
        return previous
    return Anchor(boot, max(clock.wall(), latest_s), mono_s)


class Timeline:
    """Moments from the monotonic clock alone."""

    __slots__ = ("_anchor", "_clock")

    def __init__(self, clock: Clock, anchor: Anchor) -> None:
        self._clock = clock
        self._anchor = anchor

    def now(self) -> float:
        return self.moment_of(self._clock.mono())

    def moment_of(self, mono_s: float) -> float:
        return self._anchor.moment_s + (mono_s - self._anchor.mono_s)

    def mono_of(self, moment_s: float) -> float:
        return self._anchor.mono_s + (moment_s - self._anchor.moment_s)


def boot_id() -> str:
    """Names this run of the machine; empty where the system does not say, which then counts as one long run."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read().strip()
    except OSError:
        return ""
