"""Whether this process was told to stop, and by when that has to be done: by a signal, or by an order with a deadline.

What is not done after `GIVE_UP_SHARE` of the time is given up, so that a process ends by itself and reports how, rather
than be killed while it waits for a rank that will not come.
"""

import contextlib
import signal
import time
from typing import Any

from sterna.protocol import Order, Orders

GIVE_UP_SHARE = 0.8  # of the time between being told and being killed: waiting for other ranks ends here
_SAVED_SHARE = 0.95  # and here ends waiting for their parts of a checkpoint that all ranks had agreed on


class Stopping:
    """`grace_s` is the time between SIGTERM and SIGKILL; None: not known."""

    def __init__(self, *, grace_s: float | None) -> None:
        self._grace_s = grace_s
        self._told_s: float | None = None  # since when, on the monotonic clock
        self._killed_s: float | None = None  # by when this process must be gone; None: whenever it suits
        self._handler_before: Any = None
        self.signalled = False

    def listen(self) -> None:
        """Take SIGTERM as an order. Raises ValueError outside the main thread."""
        if self._handler_before is None:
            self._handler_before = signal.signal(signal.SIGTERM, self._on_signal)

    def heed(self, orders: Orders, now_s: float) -> None:
        """An order to stop that is not yet fulfilled."""
        if orders.order is Order.STOP:
            self._told(now_s, orders.deadline_mono_s)

    def told_for_s(self, now_s: float) -> float:
        """How long ago it was told; 0 if it was not, or just now."""
        return 0.0 if self._told_s is None else now_s - self._told_s

    @property
    def give_up_s(self) -> float | None:
        """The moment from which other ranks are not waited for. None: there is no deadline."""
        return self._share(GIVE_UP_SHARE)

    def too_late(self, now_s: float) -> bool:
        return self.give_up_s is not None and now_s >= self.give_up_s

    def patience_s(self, usual_s: float) -> float:
        """How long a save may still take."""
        last_s = self._share(_SAVED_SHARE)
        return usual_s if last_s is None else min(usual_s, max(last_s - time.monotonic(), 0.0))

    def stop_listening(self) -> None:
        """The interpreter ends, and forgets its handlers before it is gone: a late signal is to change nothing."""
        if self._handler_before is not None:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self) -> None:
        """SIGTERM does what it did before."""
        if self._handler_before is not None:
            with contextlib.suppress(ValueError):  # not in the main thread any more
                signal.signal(signal.SIGTERM, self._handler_before)

    def _on_signal(self, *_: object) -> None:
        self.signalled = True
        now_s = time.monotonic()
        self._told(now_s, None if self._grace_s is None else now_s + self._grace_s)

    def _told(self, now_s: float, killed_s: float | None) -> None:
        if self._told_s is None:
            self._told_s = now_s
        if killed_s is not None and (self._killed_s is None or killed_s < self._killed_s):
            self._killed_s = killed_s

    def _share(self, share: float) -> float | None:
        if self._told_s is None or self._killed_s is None:
            return None
        return self._told_s + share * max(self._killed_s - self._told_s, 0.0)
