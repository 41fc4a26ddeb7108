"""Reports to the monitor of this node: put down at once, numbered and sent in batches by a thread.

The newest are kept when the monitor is away for long. A batch that got no answer is sent again with the same numbers,
so the monitor takes each report once.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import time
from typing import Any

from sterna.protocol.reports import (
    METRIC_MAX,
    REPORTS_MAX,
    SEQ_SENT_MAX,
    VALUE_MAX,
    BadReport,
    Batch,
    Report,
    json_object,
    next_seq,
)
from sterna.training.orders.outbox import number_of
from sterna.training.progress import Progress
from sterna.training.reporting.courier import Courier
from sterna.training.reporting.endpoint import Away, Endpoint, Reply
from sterna.training.reporting.reporter import Facts

KEPT_MAX = 256  # at two batches a second more than any decision uses
EVERY_S = 0.5
_CLOSE_S = 1.0
_BEST_FIRST = ("value", "eval_loss", "eval_accuracy", "val_loss", "val_accuracy", "loss", "accuracy")
_NAMES_MAX = 256  # a program that reports under ever new names is looked at no more
_NEVER = frozenset({"step", "epoch"})  # how far it has come, not how good it is

_ODD = re.compile(r"^(?=[./:@ -])|[^\w./:@ -]", re.ASCII)  # what the wire has no room for in a metric's name

_log = logging.getLogger(__name__)

_Told = tuple[float, float | None, str, int, int, bool]  # time, value, its name, step, epoch, counted by the program


class MonitorPush:
    """One worker's reports. `facts` is asked by the thread that sends; `progress` is looked at with every report."""

    def __init__(
        self, endpoint: Endpoint, *, pod: str, metric: str, progress: Progress, facts: Callable[[], Facts]
    ) -> None:
        self._endpoint = endpoint
        self._pod = pod
        self._choice = Choice(metric)
        self._progress = progress
        self._facts = facts
        self._evaluated: deque[_Told] = deque(maxlen=KEPT_MAX)
        self._latest: _Told | None = None  # without an evaluation: only the newest of them matters
        self._pending: list[Report] = []  # numbered, and not yet answered
        self._seq = 0
        self._refused = False
        self._overtook = False
        self._started = False
        self._courier = Courier("sterna-reports", self._deliver, endpoint.close, every_s=EVERY_S)

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Put one down. Called by the training thread at every step, so the usual case calls as little as it can."""
        choice, progress = self._choice, self._progress
        if not metrics.keys() <= choice.known:
            choice.look(metrics)
        value = metrics.get(choice.name)
        number = value if type(value) is float else number_of(value)
        step, epoch = progress.step, progress.position.epoch
        counted = "step" in metrics or "epoch" in metrics
        if counted:
            step, epoch = _whole(metrics.get("step"), step), _whole(metrics.get("epoch"), epoch)
        if number is not None and -VALUE_MAX <= number <= VALUE_MAX:
            self._evaluated.append((time(), number, choice.name, step, epoch, counted))
        else:  # a diverged loss is nothing that could be sent, nor judged
            self._latest = (time(), None, "", step, epoch, counted)
        if not self._started:
            self._started = True
            self._courier.start()

    def close(self) -> None:
        """Send what is left, and wait for it for a moment."""
        self._courier.close(_CLOSE_S)

    def _deliver(self) -> None:
        """Called by the courier's thread. Raises Away."""
        self._number()
        while self._pending:
            batch = tuple(self._pending[:REPORTS_MAX])
            reply = self._endpoint.post(Batch(batch).to_json())
            if reply.status == 404:  # a pod may be faster than the monitor's look at who is on its node
                raise Away(f"the monitor does not know {self._pod}")
            if reply.status >= 400 and not self._refused:
                self._refused = True
                _log.warning("reports were refused by the monitor: status %d", reply.status)
            if self._is_ahead(reply, batch[-1].seq):
                self._pending = [report._replace(seq=self._following_seq(0.0)) for report in self._pending]
            else:
                self._pending = self._pending[len(batch) :]

    def _is_ahead(self, reply: Reply, last: int) -> bool:
        """Has the monitor heard higher numbers under this name than these? A process that had this name before ran on
        a node whose clock was further on. Once is enough to come past it."""
        try:
            heard = json_object(reply.body).get("last_seq")
        except BadReport:
            return False
        if (
            self._overtook
            or reply.status != 200
            or type(heard) is not int
            or not last < heard < SEQ_SENT_MAX - REPORTS_MAX
        ):
            return False
        self._overtook, self._seq = True, max(self._seq, heard)
        return True

    def _following_seq(self, at_s: float) -> int:
        self._seq = next_seq(at_s, self._seq)
        return self._seq

    def _number(self) -> None:
        told = [self._evaluated.popleft() for _ in range(len(self._evaluated))]
        latest, self._latest = self._latest, None
        if latest is not None and (not told or latest[0] > told[-1][0]):
            told.append(latest)
        facts = self._facts()
        for at_s, value, metric, step, epoch, counted in told:
            then = facts
            if facts.step is not None or counted:
                then = facts._replace(step=step, epoch=epoch, units_done=float(step))
            name, seq = _ODD.sub("_", metric)[:METRIC_MAX], self._following_seq(at_s)
            self._pending.append(Report(self._pod, seq, at_s, value=value, metric=name, **then._asdict()))
        del self._pending[:-KEPT_MAX]


class Choice:
    """Which reported number is the result of an evaluation, by which growth is judged.

    `wanted` settles it. Otherwise the best name seen so far does: an evaluation counts more than the loss of the latest
    batch, and where none of the usual names is there, the first one reported.
    """

    def __init__(self, wanted: str = "") -> None:
        self.name = wanted
        self.known: set[str] = set()  # names that need not be looked at again
        self._settled = bool(wanted)

    def look(self, names: Iterable[str]) -> None:
        """At names that were reported, some of which are new."""
        if len(self.known) > _NAMES_MAX:
            return
        new = [name for name in names if name not in self.known]
        self.known.update(new)
        if self._settled:
            return
        self.name = min(
            (name for name in (self.name, *new) if name and name not in _NEVER), key=_preference, default=""
        )


def _preference(name: str) -> int:
    return _BEST_FIRST.index(name) if name in _BEST_FIRST else len(_BEST_FIRST)


def _whole(value: Any, otherwise: int) -> int:
    """What a program says that counts by itself, such as one with parameter servers: it knows better than the SDK."""
    number = number_of(value)
    return int(number) if number is not None and 0 <= number < 1e15 else otherwise
