"""A thread that does what need not hold up training, one thing after the other.

It stays from save to save: waking it costs microseconds, while starting one can cost milliseconds on a busy machine,
because Python waits until the new thread has come to life.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Worker:
    """Use it from one thread. It holds up neither the end of the program nor a fork."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None: go home
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], None]) -> None:
        """Soon. A job handles its own exceptions."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name="sterna-checkpoint", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def finish(self, timeout_s: float) -> None:
        """Wait until everything is done, but not for ever."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._jobs.put(None)
            thread.join(timeout_s)
            self._jobs = SimpleQueue()


def _work(jobs: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (job := jobs.get()) is not None:
        job()
