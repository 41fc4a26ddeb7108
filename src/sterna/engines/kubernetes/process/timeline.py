"""Moments of the operator: seconds since 1970 that no jump of the wall clock can move while it runs.

They start from the wall clock of the machine; from there on only the monotonic clock counts, so that no deadline is
shortened or stretched when the wall clock is set. Moments that other machines wrote are shown, and decide nothing.
"""

from sterna.engines.kubernetes.process.clock import Clock


class Timeline:
    __slots__ = ("_ahead_s", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = clock.wall() - clock.mono()

    def now(self) -> float:
        return self._ahead_s + self._clock.mono()
