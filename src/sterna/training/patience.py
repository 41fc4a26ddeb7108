"""Waiting with a time-out: look, pause a little longer each time, give up when the time is over."""

import time
from collections.abc import Callable


class Patience:
    """One wait of at most `limit_s`, by the monotonic clock. The first pauses are short, later ones `longest_s`."""

    def __init__(
        self,
        limit_s: float,
        *,
        until_s: float | None = None,  # a moment at which it is over in any case
        first_s: float = 0.001,
        longest_s: float = 0.05,
        idle: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit_s = limit_s
        self._until_s = until_s
        self._first_s = first_s
        self._longest_s = longest_s
        self._idle = idle
        self.renew()

    def renew(self) -> None:
        """Begin anew: there was progress."""
        self._over_s = time.monotonic() + self._limit_s
        if self._until_s is not None:
            self._over_s = min(self._over_s, self._until_s)
        self._pause_s = self._first_s

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._over_s

    def pause(self) -> None:
        """Wait before the next look."""
        self._idle(self._pause_s)
        self._pause_s = min(1.5 * self._pause_s, self._longest_s)
