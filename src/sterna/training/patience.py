"""Waiting with a time-out: look, pause a little longer each time, give up when the time is over."""

import time
from collections.abc import Callable, Iterator


class Patience:
    """One wait of at most `limit_s`, by the monotonic clock. The first pauses are short, later ones `longest_s`."""

    __slots__ = ("_first_s", "_idle", "_limit_s", "_longest_s", "_over_s", "_pause_s", "_until_s")

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
        """Begin anew, with short pauses: there was progress."""
        self._pause_s = self._first_s
        self.prolong()

    def prolong(self) -> None:
        """Allow the whole time once more from now on."""
        self._over_s = time.monotonic() + self._limit_s
        if self._until_s is not None:
            self._over_s = min(self._over_s, self._until_s)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._over_s

    def __iter__(self) -> Iterator[bool]:
        """Before each look: whether there is time left. A caller that goes on without time looks without limit."""
        while True:
            yield not self.over
            self.pause()

    def pause(self) -> None:
        """Wait before the next look."""
        self._idle(self._pause_s)
        self._pause_s = min(1.5 * self._pause_s, self._longest_s)
