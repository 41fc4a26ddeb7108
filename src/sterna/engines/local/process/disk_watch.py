"""Whether what must be written can be: looked at every second, told as conditions, events and health.

Watched are the home and every directory of checkpoints on another file system. In each lies a small reserve, a file of
real blocks. When a write there fails it is given up, slice by slice: orders, statuses and the report of the trouble
itself can then be written, and no checkpoint takes all of it. It is taken back as room returns, and when there is room
for it twice, the trouble is over. What workers say about saves that failed, and effects that could not be carried out,
are told in the same way.
"""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sterna.engines.local.process.home import Home
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.model.conditions import ConditionType, is_true
from sterna.model.errors import EngineUnavailable
from sterna.model.ids import JobId
from sterna.protocol.messages import NOT_SAVED

RESERVE_BYTES = 4 << 20  # in the home: some hundred commits, mailboxes and fences
CHECKPOINT_RESERVE_BYTES = 256 << 10  # beside checkpoints that lie elsewhere: fences and the files ranks meet by
_RESERVE, _PROBE = ".reserve", ".probe"
_PROBE_BYTES = 4096
_SLICES = 8  # of a reserve
_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_IOERR: errno.EIO,
}
_REASONS = {
    errno.ENOSPC: "NoSpace",
    errno.EDQUOT: "QuotaExceeded",
    errno.EROFS: "ReadOnly",
    errno.EIO: "InputOutputError",
}


class Trouble(NamedTuple):
    reason: str  # CamelCase
    message: str  # names the path, what the system said and how much is free


class GuardedDirectory:
    """One directory: can it be written, and its reserve."""

    def __init__(self, path: Path, *, reserve_bytes: int) -> None:
        self.path = path
        self.trouble: Trouble | None = None
        self._whole_bytes = reserve_bytes
        self._slice_bytes = reserve_bytes // _SLICES

    def look(self) -> None:
        """Try. Never raises."""
        try:
            self._probe()
            if self.trouble is None:
                self._resize(self._whole_bytes)
            elif self._is_over():
                self.trouble = None
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        """A write failed here: there is trouble, and a slice of the reserve is freed for all writers."""
        if self.trouble is None:
            self.trouble = described(self.path, error)
        try:
            self._resize(max(0, self._held_bytes() - self._slice_bytes))
        except OSError:
            return  # nothing can be changed here at all

    def _is_over(self) -> bool:
        """In trouble: leave a slice free, take the rest back, and say whether there is room for all of it twice."""
        held_bytes, free_bytes = self._held_bytes(), _free_bytes(self.path) or 0
        if held_bytes + free_bytes >= 2 * self._whole_bytes:
            self._resize(self._whole_bytes)
            return True
        room_bytes = max(0, held_bytes + free_bytes - self._slice_bytes)
        self._resize(min(self._whole_bytes, room_bytes // self._slice_bytes * self._slice_bytes))
        return False

    def _probe(self) -> None:
        descriptor = os.open(self.path / _PROBE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.pwrite(descriptor, bytes(_PROBE_BYTES), 0) < _PROBE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if (_free_bytes(self.path) or 0) < 2 * self._slice_bytes:  # a block may be free, a commit needs several
                os.posix_fallocate(descriptor, 0, self._slice_bytes // 2)
        finally:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _resize(self, wanted_bytes: int) -> None:
        held_bytes = self._held_bytes()
        if held_bytes == wanted_bytes:
            return
        descriptor = os.open(self.path / _RESERVE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if wanted_bytes > held_bytes:
                os.posix_fallocate(descriptor, 0, wanted_bytes)
            else:
                os.ftruncate(descriptor, wanted_bytes)
        finally:
            os.close(descriptor)

    def _held_bytes(self) -> int:
        try:
            return os.lstat(self.path / _RESERVE).st_size
        except OSError:
            return 0


class Storage:
    """All watched directories, and what is told of them."""

    def __init__(self, book: Book, home: Home, *, tell: Callable[[], None]) -> None:
        self._book = book
        self._home_directory = home
        self._tell = tell  # something is to be committed
        self._home = GuardedDirectory(home.root, reserve_bytes=RESERVE_BYTES)
        self._checkpoints: dict[JobId, GuardedDirectory] = {}  # of jobs whose checkpoints lie on another file system
        self._stuck: dict[JobId, Trouble] = {}  # what could not be carried out for a job
        self._failing = {job.row.id for job in book.jobs.values() if _is_failing(job)}

    @property
    def problem(self) -> str:
        """What is wrong, in a sentence; empty: nothing is."""
        if self._home.trouble is not None:
            return self._home.trouble.message
        for job_id in sorted(self._failing):
            job = self._book.jobs.get(job_id)
            if job is not None and (trouble := self._of(job)) is not None:
                return f"job {job_id}: {trouble.message}"
        return ""

    def could_not(self, job: LocalJob, error: EngineUnavailable | None) -> None:
        """What was due for a job could not be done; None: all was."""
        cause = None if error is None else error.__cause__
        if error is None:
            self._stuck.pop(job.row.id, None)
        elif isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode & 0xFF in _SQLITE:
            number = _SQLITE[cause.sqlite_errorcode & 0xFF]
            self._note_home(lambda: self._home.failed(OSError(number, os.strerror(number))))
        elif isinstance(cause, OSError) and cause.errno in _REASONS:
            self._stuck[job.row.id] = Trouble(_REASONS[cause.errno], str(error))

    def look(self) -> None:
        """Once a second."""
        news = self._note_home(self._home.look)
        for job in self._watched():
            news = self._looked_at(job) or news
        if news:
            self._tell()

    def _note_home(self, act: Callable[[], None]) -> bool:
        """Whether there is news of the home."""
        before = self._home.trouble
        act()
        now = self._home.trouble
        if (before is None) == (now is None):
            return False
        message = now.message if now is not None else f"{self._home.path} can be written again"
        self._book.event("StateNotWritten" if now else "StateWritten", message, warning=now is not None)
        return True

    def _watched(self) -> list[LocalJob]:
        gone = [
            job_id for job_id in {*self._failing, *self._checkpoints, *self._stuck} if job_id not in self._book.jobs
        ]
        for job_id in gone:
            self._failing.discard(job_id)
            self._checkpoints.pop(job_id, None)
            self._stuck.pop(job_id, None)
        others = [self._book.jobs[job_id] for job_id in sorted(self._failing - self._book.busy.keys())]
        return [*self._book.busy.values(), *others]

    def _looked_at(self, job: LocalJob) -> bool:
        """Whether there is news of this job."""
        self._look_at_checkpoints(job)
        trouble = None if job.row.finished else self._of(job)
        failing = _is_failing(job)
        if trouble is None and not failing:
            return False
        if trouble is None:
            message = "its checkpoints and its state can be written again"
            self._book.condition(job, ConditionType.SAVE_FAILING, true=False, reason="SaveRecovered", message=message)
            self._book.event("SaveRecovered", message, job=job.row.id)
            self._failing.discard(job.row.id)
            return True
        if not failing:
            self._book.event("SaveFailing", trouble.message, job=job.row.id, warning=True)
        self._failing.add(job.row.id)
        if not failing:  # how much is free changes every second, and is no news
            self._book.condition(
                job, ConditionType.SAVE_FAILING, true=True, reason=trouble.reason, message=trouble.message
            )
        return not failing

    def _look_at_checkpoints(self, job: LocalJob) -> None:
        path = self._home_directory.checkpoints(job.row.uid)
        guarded = self._checkpoints.get(job.row.id)
        if guarded is None and _is_elsewhere(path, self._home.path):
            guarded = GuardedDirectory(path, reserve_bytes=CHECKPOINT_RESERVE_BYTES)
            self._checkpoints[job.row.id] = guarded
        if guarded is not None:
            guarded.look()

    def _of(self, job: LocalJob) -> Trouble | None:
        said = job.row.progress.problem if job.row.progress is not None else None
        if said is not None and said.startswith(NOT_SAVED) and job.live:
            return Trouble("NotSaved", said)
        guarded = self._checkpoints.get(job.row.id)
        if guarded is not None and guarded.trouble is not None:
            return guarded.trouble
        return self._home.trouble or self._stuck.get(job.row.id)


def described(path: Path, error: OSError) -> Trouble:
    reason = _REASONS.get(error.errno or 0, "NotWritable")
    free_bytes = _free_bytes(path)
    free = "" if free_bytes is None else f" ({free_bytes} bytes are free)"
    return Trouble(reason, f"{path} cannot be written: {error.strerror or error}{free}")


def _free_bytes(path: Path) -> int | None:
    try:
        about = os.statvfs(path)
    except OSError:
        return None
    return about.f_bavail * about.f_frsize


def _is_elsewhere(path: Path, home: Path) -> bool:
    try:
        return os.stat(path).st_dev != os.stat(home).st_dev
    except OSError:
        return False


def _is_failing(job: LocalJob) -> bool:
    return is_true(job.row.conditions, ConditionType.SAVE_FAILING)
