"""How long jobs that have ended are kept, and what goes with them."""

import asyncio
import shutil
from collections.abc import Callable

from sterna.engines.local.process.home import Home
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.model.ids import JobId
from sterna.model.workload import CleanUp


class Keeping:
    def __init__(self, book: Book, home: Home, *, on_dropped: Callable[[LocalJob], None]) -> None:
        self._book = book
        self._home = home
        self._on_dropped = on_dropped
        self._timers: dict[JobId, asyncio.TimerHandle] = {}

    def nothing_runs(self, job: LocalJob) -> None:
        """The job has ended or is deleted, and its last process is gone: its time to be kept begins, or it goes."""
        if not self._book.has(job):
            return  # gone already, maybe with another one of its name in its place
        if job.row.deleting:
            self.drop(job)
            return
        policy = job.workload.run_policy
        if policy.clean_up is CleanUp.ALL:
            shutil.rmtree(self._home.job(job.row.uid) / "workers", ignore_errors=True)
        if policy.ttl_after_finished_s is None or job.row.finished_s is None or job.row.id in self._timers:
            return
        left_s = max(0.0, job.row.finished_s + policy.ttl_after_finished_s - self._book.timeline.now())
        self._timers[job.row.id] = asyncio.get_running_loop().call_later(left_s, self._expire, job)

    def drop(self, job: LocalJob) -> None:
        """Nothing of it is left but its events and changes."""
        if not self._book.has(job):
            return
        if (timer := self._timers.pop(job.row.id, None)) is not None:
            timer.cancel()
        self._book.drop_job(job)
        self._book.commit(f"drop {job.row.id}")
        shutil.rmtree(self._home.job(job.row.uid), ignore_errors=True)
        self._on_dropped(job)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _expire(self, job: LocalJob) -> None:
        self._book.event("Expired", "ttlSecondsAfterFinished has passed", job=job.row.id)
        self.drop(job)
