"""The warden's event loop: descriptors, timers and signals, one thread, one call at a time.

Not asyncio, which would double the size of a process that should stay small. A call that raises is
written to the log and the loop goes on: one broken launch must not take the others with it.
"""

import heapq
import itertools
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable

now_s = time.monotonic


class Timer:
    """A call to come, which can be taken back; what it would have called is let go of at once."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Calls back for descriptors, timers and signals until `leave`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()  # timers of the same moment go in the order they were set
        self._settle: list[Callable[[], None]] = []
        self._running = True

    def readable(self, fd: int, call: Callable[[], None]) -> None:
        """Call whenever `fd` can be read, until it is dropped."""
        self._selector.register(fd, selectors.EVENT_READ, call)

    def both(self, fd: int, call: Callable[[], None], *, writable: bool) -> None:
        """Of a descriptor that is read: whether it is called when it can be written, too."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        self._selector.modify(fd, events, call)

    def drop(self, fd: int) -> None:
        self._selector.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], object]) -> Timer:
        """Call once, so many seconds from now."""
        timer = Timer(call)
        heapq.heappush(self._timers, (now_s() + delay_s, next(self._order), timer))
        return timer

    def settle(self, call: Callable[[], None]) -> None:
        """Called after each round, when everything that happened at once has been seen."""
        self._settle.append(call)

    def signals(self, calls: dict[int, Callable[[], None]]) -> None:
        """Signals become ordinary calls of the loop, by way of a pipe."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in calls:
            signal.signal(number, _noted)

        def arrived() -> None:
            numbers = set(os.read(reading, 65536))
            for number in sorted(numbers & calls.keys()):
                calls[number]()

        self.readable(reading, arrived)

    def leave(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            for key, _ in self._selector.select(self._wait_s()):
                current = self._selector.get_map().get(key.fd)
                if current is not None and current.data is key.data:  # else an earlier call of this round dropped it
                    _guarded(key.data)
            while self._timers and self._timers[0][0] <= now_s():
                due = heapq.heappop(self._timers)[2]
                if due.call is not None:
                    _guarded(due.call)
            for call in self._settle:
                _guarded(call)

    def _wait_s(self) -> float | None:
        return max(0.0, self._timers[0][0] - now_s()) if self._timers else None


def _noted(number: int, frame: object) -> None:
    """The pipe has it."""


def _guarded(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:  # the boundary of a round
        sys.excepthook(*sys.exc_info())  # to the log; the traceback module would cost a megabyte
