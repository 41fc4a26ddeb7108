"""What a worker says about itself: the status file, written at once when it matters and once a second otherwise.

Other code changes fields here whenever it likes; a thread of its own, started with the first one, does the writing, so
that neither a full disk nor a slow one ever holds up training. It dies with the process.
"""

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sterna.protocol import Status, WorkerIdentity, WorkerPhase, wake_engine, write_last_word, write_status

_EVERY_S = 1.0
_METRICS_MAX = 256
_NAME_MAX = 128
_PROBLEM_MAX = 2_000

_log = logging.getLogger(__name__)


class Outbox:
    """Status of one worker, written by its first process; in the others nothing is written."""

    def __init__(
        self,
        identity: WorkerIdentity,
        *,
        ack: int,  # what a process before this one had acknowledged
        facts: Callable[[], dict[str, Any]],  # fields that change with every step, gathered when the file is written
        watch: Callable[[], None] = lambda: None,  # called once a second by the thread
    ) -> None:
        self._status = Status(pid=os.getpid(), phase=WorkerPhase.ATTACHED, ack=ack, world_size=identity.world_size)
        self._metrics: dict[str, float] = {}
        self._mailbox = identity.mailbox if identity.local_rank == 0 else None
        self._engine = identity.wake
        self._worker = identity.worker
        self._termination_log = identity.termination_log  # outlives the container, whose mailbox no engine can read
        self._lock = threading.Lock()
        self._changed = False  # a plain flag: it is set at every step and looked at once a second
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._refused: set[str] = set()
        self._facts = facts
        self._watch = watch

    @property
    def status(self) -> Status:
        return self._status

    def touch(self) -> None:
        """Something has changed; the file follows within a second."""
        self._changed = True

    def note(self, **changes: Any) -> None:
        """Change fields; the file follows within a second."""
        with self._lock:
            self._status = replace(self._status, **changes)
        self._changed = True
        if self._thread is None and self._mailbox is not None and not self._closed.is_set():
            self._start()

    def tell(self, *, lasting: bool = False, **changes: Any) -> None:
        """Change fields, write the file now and wake the engine. `lasting`: also in the termination log."""
        if "problem" in changes and changes["problem"] is not None:
            changes["problem"] = changes["problem"][:_PROBLEM_MAX]
        self.note(**changes)
        self.flush()
        if lasting and self._mailbox is not None:
            with self._lock:  # two threads that write in place at once would leave neither's status
                self._leave_last_word()
        if self._engine is not None and self._mailbox is not None:
            wake_engine(self._engine, self._worker)

    def report(self, metrics: dict[str, Any]) -> None:
        """Numbers by name. Called at every step, so the usual case comes first and does little."""
        known = self._metrics
        for name, value in metrics.items():
            if type(value) is float and name in known:
                known[name] = value
            else:
                self._keep(name, value)
                known = self._metrics
        self._changed = True

    def flush(self) -> None:
        """Write the file. What cannot be written now is tried again within a second."""
        if self._mailbox is None:
            return
        self._changed = False
        with self._lock:
            self._status = replace(self._status, metrics=dict(self._metrics), **self._facts())
            try:
                write_status(self._mailbox, self._status)
            except OSError:
                self._changed = True

    def close(self) -> None:
        """Write what has changed, and end the thread."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)
        if self._changed:
            self.flush()

    def _keep(self, name: str, value: Any) -> None:
        number = number_of(value)
        if number is None or len(name) > _NAME_MAX:
            self._refuse(name, f"is {_shown(value)}; expected a number")
        elif name in self._metrics:
            self._metrics[name] = number
        elif len(self._metrics) >= _METRICS_MAX:
            self._refuse(name, f"is one too many; at most {_METRICS_MAX} are kept")
        else:
            self._metrics = {**self._metrics, name: number}  # the thread may be copying the one there was

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._write_now_and_then, name="sterna-status", daemon=True)
        self._thread.start()

    def _write_now_and_then(self) -> None:
        while not self._closed.wait(_EVERY_S):
            with contextlib.suppress(Exception):  # a status is never worth more than the training it is about
                self._watch()
            if self._changed:
                self.flush()

    def _leave_last_word(self) -> None:
        """For an engine on another machine. A file that cannot be written costs knowledge, never the training."""
        if self._termination_log is not None:
            with contextlib.suppress(OSError):
                write_last_word(self._termination_log, dated(self._status, wall_s=time.time(), mono_s=time.monotonic()))

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            _log.warning("metric %s not reported: it %s", _shown(name), why)


def dated(status: Status, *, wall_s: float, mono_s: float) -> Status:
    """With dates for what it knows by the monotonic clock, which means nothing on another machine.

    Both clocks are read at the same moment. The dates are for people to read: nothing is decided by them.
    """

    def date_of(moment_s: float | None) -> float | None:
        return None if moment_s is None else round(wall_s - (mono_s - moment_s), 3)

    return replace(
        status,
        first_step_wall_s=date_of(status.first_step_mono_s),
        stopped_wall_s=date_of(status.last_step_mono_s),
    )


def number_of(value: Any) -> float | None:
    """A number of Python, or of a framework that gives its one element by `item()`. None: it is none."""
    if isinstance(value, int | float):
        with contextlib.suppress(OverflowError):
            return float(value)
        return math.inf if value > 0 else -math.inf
    if hasattr(value, "item"):  # one element of a framework: an array or a tensor
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
            return float(value.item())
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
