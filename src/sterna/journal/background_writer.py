"""A thread that writes what others hand over, so that none of them waits for a disk.

The line is bounded: what comes while it is full is dropped and counted, and the count is given to whatever is written
next. Handing over takes a lock for a moment and touches no file.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundWriter(Generic[T]):
    """`write` is called by one thread, with an item and how many were dropped before it. It must not raise."""

    def __init__(self, write: Callable[[T, int], None], *, waiting_max: int) -> None:
        self._write = write
        self._waiting_max = waiting_max
        self._line: deque[tuple[T, int]] = deque()
        self._dropped = 0  # since the latest item that was taken
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None  # None: nothing was handed over yet

    def put(self, item: T) -> bool:
        """Never waits for what is being written. False: it was dropped."""
        with self._changed:
            if self._closed or len(self._line) >= self._waiting_max:
                self._dropped += 1
                return False
            self._line.append((item, self._dropped))
            self._dropped = 0
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
                self._thread.start()
        return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was handed over is written. False: it was not within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._line and not self._busy, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Take nothing more, and write the rest. False: some is left; the thread ends with the process."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        return self.flush(timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._line or self._closed)
                if not self._line:
                    return
                item, dropped = self._line.popleft()
                self._busy = True
            self._write(item, dropped)
