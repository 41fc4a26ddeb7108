"""A thread that delivers something now and then, for as long as the program runs, and waits longer when it cannot."""

import logging
import random
import threading
from collections.abc import Callable

_LONGEST_PAUSE_S = 30.0

_log = logging.getLogger(__name__)


class Courier:
    """`deliver` raises Away without an answer. One thread calls it, once more at the end, and then `hang_up`."""

    def __init__(self, name: str, deliver: Callable[[], None], hang_up: Callable[[], None], *, every_s: float) -> None:
        self._name = name
        self._deliver = deliver
        self._hang_up = hang_up
        self._every_s = every_s
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = 0

    def start(self) -> None:
        """With the first thing there is to deliver; again and again does no harm."""
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self, at_most_s: float) -> None:
        """Deliver what there is, and wait for it, but not longer than this."""
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(at_most_s)

    def _run(self) -> None:
        while not self._closing.wait(self._pause_s()):
            self._try()
        self._try()
        self._hang_up()

    def _try(self) -> None:
        try:
            self._deliver()
        except Exception as error:  # Away, or a bug: a report is never worth more than the training it is about
            self._trouble(error)
        else:
            self._failures = 0

    def _trouble(self, error: Exception) -> None:
        if not self._failures:
            _log.warning("%s: reports cannot be delivered, still trying: %s", self._name, error)
        self._failures += 1

    def _pause_s(self) -> float:
        """Twice as long after each failure, and never the same for two: they would all come back at once."""
        if not self._failures:
            return self._every_s
        longest_s = min(_LONGEST_PAUSE_S, self._every_s * 2.0 ** min(self._failures, 16))
        return longest_s * random.uniform(0.5, 1.0)
