"""Saves of one rank: when one is due, doing it, and what came of it. A save that fails never ends training."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sterna.protocol import CommittedCheckpoint, WorkerIdentity
from sterna.protocol.messages import NOT_SAVED
from sterna.training.checkpoint import (
    CheckpointProblem,
    CheckpointStore,
    Fenced,
    FilesToSave,
    Generation,
    OptimizerLoan,
    PendingSave,
    Saved,
)
from sterna.training.progress import Progress
from sterna.training.state.interval import SaveInterval
from sterna.training.state.registry import Registry

_RETRY_S = 10.0  # after a save that failed: a full disk does not empty itself between two steps

Captured = Callable[[], Mapping[str, Any]]  # gives this rank's own state


def store_of(identity: WorkerIdentity, *, keep: int) -> CheckpointStore | None:
    """Where this process saves; None: the engine named no place. Claims the rank for this process."""
    if identity.checkpoint_dir is None:
        return None
    if not identity.gang:  # ranks that train independently have nothing in common to save: each is a job of one
        alone = identity.checkpoint_dir / f"rank-{identity.rank}"
        return CheckpointStore(alone, incarnation=identity.incarnation, keep=keep)
    return CheckpointStore(
        identity.checkpoint_dir,
        incarnation=identity.incarnation,
        rank=identity.rank,
        world_size=identity.world_size,
        keep=keep,
    )


class Saving:
    """Used by the training thread; the status thread may `look`."""

    def __init__(
        self, store: CheckpointStore, interval: SaveInterval | None, registry: Registry | None, progress: Progress
    ) -> None:
        """`registry` None: another rank saves what is the same on all."""
        self.store = store
        self.last: CommittedCheckpoint | None = None  # the newest that is known to be durable
        self.save_s: float | None = None
        self.problem: str | None = None  # of the latest save
        self.superseded: str | None = None  # set: this process may not write any more
        self._interval = interval
        self._registry = registry
        self._progress = progress
        self._began_s = time.monotonic()
        self._not_before_s = 0.0  # nothing is due before: spares asking at every step
        self._failed_s: float | None = None
        self._loan: OptimizerLoan | None = None
        self._under_way: PendingSave | None = None
        self._lock = threading.Lock()

    def due(self, now_s: float) -> bool:
        """Whether a periodic save should begin at this boundary."""
        step_s = self._progress.step_s
        if self._interval is None or step_s is None or now_s < self._not_before_s:
            return False
        if self._failed_s is not None and now_s - self._failed_s < _RETRY_S:
            return False
        under_way = self._under_way
        saving = under_way is not None and not under_way.done()
        if self._interval.due(since_last_s=now_s - self._began_s, step_s=step_s, saving=saving):
            return True
        self._not_before_s = self._began_s + self._interval.interval_s / 2
        return False

    @property
    def under_way(self) -> bool:
        return self._under_way is not None

    def prepare(self, captured: Captured) -> None:
        """Have memory ready for the first save, so that it holds training up no longer than later ones."""
        if self._interval is not None:
            try:
                self.store.prepare(*self._state(captured))
            except CheckpointProblem as problem:
                self._failed(problem)

    def begin(self, captured: Captured) -> None:
        """In the background. Whatever goes wrong is in `problem` and `superseded`."""
        self.look()
        self._began_s = time.monotonic()
        if self._loan is None and self._registry is not None and self._registry.optimizers:
            self._loan = OptimizerLoan(self._registry.optimizers)
        shared, own = self._state(captured)
        try:
            self._under_way = self.store.begin_save(
                shared, own, step=self._progress.step, about=self._progress.about(), loan=self._loan
            )
        except (CheckpointProblem, OSError, MemoryError) as problem:
            self._failed(problem)
        else:
            self._progress.beside_save()

    def save(self, captured: Captured, *, at_most_s: float | None = None) -> None:
        """Now, while training stands still. Whatever goes wrong is in `problem` and `superseded`.

        `at_most_s`: how long to wait for other ranks, and before that for the save under way.
        """
        self.finish(at_most_s)
        if self._under_way is not None:
            return  # it hangs, and so would this one; `problem` says so
        self._began_s = time.monotonic()
        shared, own = self._state(captured)
        try:
            saved = self.store.save(
                shared, own, step=self._progress.step, about=self._progress.about(), meet_s=at_most_s
            )
        except (CheckpointProblem, OSError, MemoryError) as problem:
            self._failed(problem)
        else:
            self._succeeded(saved)

    def refuse(self, why: str, *, at_most_s: float | None) -> None:
        """A save that all ranks have agreed on and that cannot be: other ranks need not wait for it."""
        self.finish(at_most_s)
        if self._under_way is None:
            try:
                self.store.refuse(why, step=self._progress.step)
            except (CheckpointProblem, OSError) as problem:
                self._failed(problem)

    def give_up(self, why: str) -> None:
        """A save that was asked for and does not come about."""
        self._failed(CheckpointProblem(why))

    def finish(self, timeout_s: float | None) -> None:
        """Wait for the save under way, if there is one."""
        pending = self._under_way
        if pending is None:
            return
        try:
            pending.result(timeout_s)
        except TimeoutError as problem:
            self._failed(problem)
        except CheckpointProblem:
            pass  # `look` takes notice
        self.look()

    def look(self) -> bool:
        """Take notice of a save that is done. Whether there was something to notice."""
        if self._under_way is None:
            return False
        with self._lock:
            pending = self._under_way
            if pending is None or not pending.done():
                return False
            self._under_way = None
        slowdown_s = self._progress.slowed_down_s()
        if pending.problem is not None:
            self._failed(pending.problem)
        else:
            saved = pending.result(0)
            self._succeeded(saved)
            if self._interval is not None:
                self._interval.saved(stall_s=saved.stall_s, save_s=saved.save_s, slowdown_s=slowdown_s)
        return True

    def durable(self, generation: Generation, *, stall_s: float) -> None:
        """This generation is complete: it was saved, or restored."""
        self.last = CommittedCheckpoint(
            generation=generation.seq,
            step=generation.step,
            bytes=generation.bytes,
            digest=generation.digest,
            stall_s=stall_s,
            at_mono_s=time.monotonic(),
        )

    def close(self, timeout_s: float) -> None:
        """Wait for the save under way, and give back what saving holds."""
        self.finish(timeout_s)
        if self._loan is not None:
            self._loan.close()
        self.store.close()

    def _state(self, captured: Captured) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        try:
            return self._registry.state() if self._registry is not None else {}, captured()
        except Exception as error:  # the program's own code: a save that fails does not end training
            failure = {"state": FilesToSave(partial(_raise, error), name="state")}  # the store tells the other ranks
            return failure, failure

    def _succeeded(self, saved: Saved) -> None:
        self.durable(saved.generation, stall_s=saved.stall_s)
        self.save_s, self.problem, self._failed_s = saved.save_s, None, None

    def _failed(self, problem: BaseException) -> None:
        self._failed_s = time.monotonic()
        self.problem = f"{NOT_SAVED}{str(problem) or type(problem).__name__}"
        if isinstance(problem, Fenced):
            self.superseded = str(problem)


def _raise(error: Exception, _: object) -> None:
    raise error
