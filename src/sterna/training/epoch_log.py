"""The log that rank 0 appends to once per epoch, in Voda's form, and where a restarted job learns which epoch is next.

    log = EpochLog(total_epochs=50)              # /metrics/<job>.csv, if there is such a job
    for epoch in log.epochs():                   # from the first one that the log does not have
        for batch in data:
            ...
            log.step()
        log.end(loss=loss)

Voda's collector, and Sterna's monitor, learn a job's pace from it. One header, `epoch` first and the other columns in
the order of the alphabet. Where there is no log to write, every call does nothing and epochs count from 0.
How a row gets into the file, whole or not at all, is `epoch_file.py`.
"""

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sterna.protocol import WorkerIdentity
from sterna.training.epoch_file import append, whole_part
from sterna.training.orders.outbox import number_of

VARIABLE = "STERNA_EPOCH_LOG"  # the file, where neither the program nor Voda's JOB_NAME says it
DIRECTORY = Path("/metrics")  # where Voda mounts it

_log = logging.getLogger(__name__)

Count = int | Callable[[], int]


class EpochLog:
    """One job's log. `rank` and `workers` may be functions, for jobs whose members change while a process lives."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        total_epochs: int | None = None,  # None: what Voda's EPOCHS says, if it does
        rank: Count | None = None,  # None, as for `workers`: what Sterna or torchrun has told this process
        workers: Count | None = None,
        local_batch_size: int | None = None,
    ) -> None:
        identity = WorkerIdentity.from_environment()
        self.path = Path(path) if path is not None else path_from(os.environ)
        self.total_epochs = _epochs_from(os.environ) if total_epochs is None else total_epochs
        self._rank = identity.rank if rank is None else rank
        self._workers = identity.world_size if workers is None else workers
        self._local_batch_size = local_batch_size
        self._waiting: dict[int, Mapping[str, str]] = {}  # rows that could not be written yet
        self._warned: set[str] = set()
        self._next_epoch = self._found()
        self.begin()

    @property
    def next_epoch(self) -> int:
        """The first epoch that is not in the log: `initial_epoch` for a framework that counts by itself."""
        return self._next_epoch

    def epochs(self) -> Iterator[int]:
        """The epochs that are still to be trained. `end` has to be called in each."""
        while self.total_epochs is None or self._next_epoch < self.total_epochs:
            epoch = self._next_epoch
            self.begin()
            yield epoch
            if self._next_epoch == epoch:
                raise ValueError(f"epoch {epoch} was not ended: call end() once per epoch")

    def begin(self) -> None:
        """An epoch begins now. Without this one begins where the one before has ended."""
        self._began, self._began_s, self._steps = datetime.now(UTC), time.monotonic(), 0

    def step(self) -> None:
        """A step of this epoch is done. An epoch without any counts as a single one."""
        self._steps += 1

    def end(self, epoch: int | None = None, **metrics: Any) -> None:
        """The epoch is over: rank 0 writes its row. `epoch`: which one it was; None: the next one.

        One that the log has already, because it was trained again after a crash, is not written again. What cannot be
        written now is tried again at the end of the next epoch; training is never stopped for it.
        """
        number = self._next_epoch if epoch is None else epoch
        if self.path is not None and _now(self._rank) == 0:
            self._waiting[number] = self._row(number, metrics)
            self._write(self.path, metrics)
        self._next_epoch = max(self._next_epoch, number + 1)
        self.begin()

    def _found(self) -> int:
        try:
            return 0 if self.path is None else whole_part(self.path).next_epoch
        except OSError as error:
            self._warn("reading", "epoch log %s not read: %s", self.path, error)
            return 0

    def _row(self, number: int, metrics: Mapping[str, Any]) -> dict[str, str]:
        took_s = max(1e-6, time.monotonic() - self._began_s)
        workers, batch = _now(self._workers), self._local_batch_size
        theirs = {name: number_of(value) for name, value in metrics.items() if name.isprintable()}
        own = {
            "epoch": number,
            "workers": workers,
            "start_time": self._began.strftime("%Y-%m-%d %H:%M:%S.%f"),
            "epoch_time_sec": took_s,
            "step_time_sec": took_s / max(1, self._steps),
            "total_epochs": self.total_epochs,
            "local_batch_size": batch,
            "global_batch_size": None if batch is None else batch * workers,
        }
        return {name: _cell(value) for name, value in {**theirs, **own}.items()}

    def _write(self, path: Path, metrics: Mapping[str, Any]) -> None:
        try:
            columns = append(path, self._waiting)
        except OSError as error:
            self._warn("writing", "epoch log %s not written: %s", path, error)
            return
        self._waiting.clear()
        self._warned.discard("writing")
        if absent := sorted(name for name in metrics if name not in columns):
            self._warn("columns", "epoch log %s has no column for %s", path, ", ".join(absent))

    def _warn(self, about: str, phrase: str, *arguments: object) -> None:
        if about not in self._warned:
            self._warned.add(about)
            _log.warning(phrase, *arguments)


def keras_callback(log: EpochLog) -> Any:
    """`log` as a callback: `model.fit(..., initial_epoch=log.next_epoch, callbacks=[keras_callback(log)])`.

    For programs that use Keras already: it is not imported from here.
    """
    keras: Any = sys.modules.get("keras") or getattr(sys.modules.get("tensorflow"), "keras", None)
    if keras is None:
        raise RuntimeError("keras_callback() is for programs that use Keras: import keras before calling it")

    class EpochLogCallback(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            log.begin()

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            log.step()

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            log.end(epoch, **{name: value for name, value in (logs or {}).items() if name != "epoch"})

    return EpochLogCallback()


def path_from(environment: Mapping[str, str]) -> Path | None:
    """Where this job's log is. None: there is none to write."""
    if named := environment.get(VARIABLE):
        return Path(named)
    job = environment.get("JOB_NAME", "")
    if not job or "/" in job or job.startswith(".") or not DIRECTORY.is_dir():
        return None
    return DIRECTORY / f"{job}.csv"


def _cell(value: object) -> str:
    return "NA" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _now(count: Count) -> int:
    return count() if callable(count) else count


def _epochs_from(environment: Mapping[str, str]) -> int | None:
    text = environment.get("EPOCHS", "")
    return int(text) if text.isascii() and text.isdigit() else None
