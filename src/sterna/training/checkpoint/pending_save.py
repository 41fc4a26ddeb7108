"""One save of one rank, from the values to a complete generation; in the background or while the caller waits."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from sterna.training.checkpoint.archive import Draft
from sterna.training.checkpoint.capture import Capture
from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, LoanBroken
from sterna.training.checkpoint.checkpoint_values import Generation, Json, Saved
from sterna.training.checkpoint.generation_writer import (
    await_manifest,
    call_writers,
    clear_up,
    gather,
    leave_note,
    leave_problem,
    write_manifest,
    write_shard,
)
from sterna.training.checkpoint.generations import MANIFEST, name_of
from sterna.training.checkpoint.lending import Loan
from sterna.training.checkpoint.memory import Region
from sterna.training.checkpoint.rank_directory import RankDirectory, retain

_ALONE_BYTES = 4 << 20  # less than this is copied sooner than a second thread could help


@dataclass(frozen=True, slots=True)
class Task:
    """A save with its number."""

    place: RankDirectory
    seq: int
    step: int
    about: Mapping[str, Json]

    @property
    def path(self) -> Path:
        return self.place.directory / name_of(self.seq, self.place.incarnation)

    def draft(self, trees: Mapping[str, object], lent: Iterable[int]) -> Draft:
        """What must happen before training goes on, in whichever thread the rest is written."""
        with self._failing(0):
            self.place.require()
            if (self.path / MANIFEST).exists():
                raise CheckpointProblem(f"{self.path.name} is complete already: load it before saving anything")
            draft = Draft(trees, lent=lent)
            call_writers(self.place, self.path, draft.files)
        return draft

    def finish(self, draft: Draft, capture: Capture | None = None) -> Generation:
        """Write our shard and meet the others. Returns once the generation is complete and durable.

        The body comes from the capture, else straight from the memory that the draft points at.
        """
        place, path = self.place, self.path
        with self._failing(draft.body_bytes):
            if capture is not None:
                capture.require_whole()
            place.disk.make_directory(path)
            place.disk.sync_directory(place.directory)
            shard = write_shard(place, path, (draft if capture is None else capture).write)
            place.require()  # again: the write may have taken minutes
            leave_note(place, path, shard, step=self.step)
            if place.rank != 0:
                return await_manifest(place, path, shard)
            shards = gather(place, path, shard, step=self.step)
            place.require()
            return write_manifest(place, path, shards, step=self.step, about=self.about)

    @contextmanager
    def _failing(self, wanted_bytes: int) -> Iterator[None]:
        """What goes wrong inside leaves as a CheckpointProblem, after this save was cleared up."""
        try:
            yield
        except OSError as error:
            raise self.failed(self.place.explain(error, wanted_bytes)) from error
        except CheckpointProblem as problem:
            raise self.failed(problem) from problem.__cause__

    def tidy(self) -> None:
        """Remove what is no longer needed. After a save, and after telling so: removing gigabytes takes a while."""
        if self.place.rank == 0:
            try:
                fence = self.place.require()
                retain(self.place.disk, self.place.directory, fence, self.place.incarnation, self.place.keep)
            except (OSError, CheckpointProblem):
                return  # the save is good all the same; what could not be removed is tried again after the next one

    def failed(self, problem: CheckpointProblem) -> CheckpointProblem:
        """Remove what this save has written, and tell the other ranks why it failed."""
        clear_up(self.place, self.path)
        leave_problem(self.place, self.path, problem)
        return problem


class Worker:
    """A thread that does what need not hold up training, one thing after the other. Use it from one thread.

    It stays from save to save: waking it costs microseconds, while starting one can cost milliseconds on a busy
    machine, because Python waits until the new thread has come to life. It holds up neither the end of the program nor
    a fork.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None: end
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], None]) -> None:
        """Soon. A job handles its own exceptions."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=_work, args=(self._jobs,), name="sterna-checkpoint", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def finish(self, timeout_s: float) -> None:
        """Wait until everything is done, with a time-out."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._jobs.put(None)
            thread.join(timeout_s)
            self._jobs = SimpleQueue()


def _work(jobs: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (job := jobs.get()) is not None:
        job()


class PendingSave:
    """A save under way in the background."""

    def __init__(self, task: Task, draft: Draft, region: Region, loan: Loan | None, began_s: float) -> None:
        self.step = task.step
        self._task = task
        self._draft = draft
        self._capture = Capture(draft, region)
        self._loan = loan
        self._began_s = began_s
        self._stall_s = 0.0
        self._done = threading.Event()
        self._generation: Generation | None = None
        self._save_s = 0.0
        self._problem: CheckpointProblem | None = None

    @property
    def stall_s(self) -> float:
        """How long training has stood still for this save so far: `begin_save` itself, and waiting for a loan's end."""
        return self._stall_s

    @property
    def problem(self) -> CheckpointProblem | None:
        """Why it failed; None while it is under way or once it is durable."""
        return self._problem

    def done(self) -> bool:
        """Durable or failed."""
        return self._done.is_set()

    def wait_captured(self) -> None:
        """Return once everything lent has been copied. Without a loan that was so when `begin_save` returned."""
        if not self._capture.is_settled():
            began_s = time.perf_counter()
            self._capture.settle()
            self._stall_s += time.perf_counter() - began_s

    def result(self, timeout_s: float | None = None) -> Saved:
        """Wait until it is durable. Raises what went wrong (CheckpointProblem, Fenced), or TimeoutError."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"the save of step {self.step} is not done after {timeout_s} s")
        if self._problem is not None:
            raise self._problem
        assert self._generation is not None  # done, and no problem
        return Saved(self._generation, self._stall_s, self._save_s)

    def wait_done(self) -> None:
        """Wait until it is durable or has failed."""
        self._done.wait()

    def begin(self, worker: Worker) -> None:
        """Give it to the worker, and return when what may change from now on has been copied."""
        if self._capture.changing_bytes <= _ALONE_BYTES:
            self._capture.wait_changing()
        worker.do(self._run)
        self._capture.wait_changing()
        self._stall_s = time.perf_counter() - self._began_s

    def _run(self) -> None:
        try:
            self._generation = self._task.finish(self._draft, self._capture)
            self._save_s = time.perf_counter() - self._began_s
        except LoanBroken as problem:
            self._problem = problem
            if self._loan is not None:
                self._loan.broken(str(problem))
        except CheckpointProblem as problem:
            self._problem = problem
        except Exception as error:  # in a thread of ours: there is no caller to see it
            self._problem = CheckpointProblem(f"the save of step {self.step} failed: {type(error).__name__}: {error}")
            self._problem.__cause__ = error
        self._draft.let_go()
        self._capture.let_go()
        self._done.set()
        if self._problem is None:
            self._task.tidy()


def checked_about(about: Mapping[str, Json]) -> dict[str, Json]:
    """A copy of our own that is certain to fit in a manifest."""
    try:
        copied: dict[str, Json] = json.loads(json.dumps(dict(about)))
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointProblem(f"`about` must be plain JSON: {error}") from error
    return copied
