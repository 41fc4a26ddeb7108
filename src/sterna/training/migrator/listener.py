"""The thread that looks now and then whether something is wanted."""

import threading
import time
from collections.abc import Callable

from sterna.training.migrator.console import say


class Listener:
    """A daemon: it never keeps a program from ending. `look` answers when to look next; 0: after `interval_s`."""

    def __init__(self, look: Callable[[], float], wait: Callable[[float], None] = time.sleep) -> None:
        self._look = look
        self._wait = wait
        self.interval_s = 1.0
        self._thread: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Safe to repeat: one thread is enough."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="sterna-migrator", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """There is nothing to listen for any more. The thread ends with its present wait."""
        self._stopped = True

    def _run(self) -> None:
        while not self._stopped:
            try:
                again_s = self._look()
            except Exception as error:  # the boundary of a thread: it must outlive whatever a look runs into
                say(f"the listener goes on after {type(error).__name__}: {error}")
                again_s = 0.0
            self._wait(again_s or self.interval_s)
