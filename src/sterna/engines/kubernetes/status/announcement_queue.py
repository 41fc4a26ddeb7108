"""Announcements of jobs (`announcements.py`) handed to the recorder, until each is known to be recorded.

The recorder's line is short, and after a restart there may be something to tell of every job: what does not fit waits
here, by job.
"""

from collections.abc import Callable, Collection
from functools import partial

from sterna.engines.kubernetes.status.event_recorder import WAITING_MAX, About, Recorder, Severity
from sterna.engines.kubernetes.world.job_index import KnownJob, KnownJobs

_NAMED = b'"announcements"'  # in the text of a status that has some; most have none, and need not be read
_LINE_MAX = WAITING_MAX // 2  # the other half is for whatever else is recorded


class Announcer:
    """`look_at` is called with the uid of a job whose status may have an announcement that can leave."""

    def __init__(self, recorder: Recorder, jobs: KnownJobs, look_at: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._jobs = jobs
        self._look_at = look_at
        self._told: dict[str, set[int]] = {}  # by uid: recorded, or refused for good
        self._given: dict[str, set[int]] = {}  # by uid: in the recorder's line
        self._in_line = 0
        self._waiting: dict[str, None] = {}  # uids

    def begin_term(self) -> None:
        """Start with nothing known: another leader may have recorded anything since."""
        self._told.clear()
        self._waiting.clear()

    @property
    def at_rest(self) -> bool:
        """Is everything recorded that is to be?"""
        return not self._waiting and not self._in_line

    def told(self, uid: str) -> Collection[int]:
        return frozenset(self._told.get(uid, ()))

    def announce(self, job: KnownJob) -> None:
        """The status of this job may have something to tell."""
        if _NAMED in bytes(job.object.status):
            self._waiting[job.uid] = None
            self._feed()

    def forget(self, uid: str) -> None:
        """This job is gone."""
        self._told.pop(uid, None)

    def _feed(self) -> None:
        while self._waiting and self._in_line < _LINE_MAX:
            uid = next(iter(self._waiting))
            del self._waiting[uid]
            job = self._jobs.by_uid.get(uid)
            if job is not None:
                self._give(job)

    def _give(self, job: KnownJob) -> None:
        meta, uid = job.object.metadata, job.uid
        about = About(job.resource.api_version, job.resource.kind, meta.namespace, meta.name, uid)
        there = job.status.recorded.announcements
        told = self._told.get(uid, set()) & {found.number for found in there}  # others have left the status
        given = self._given.get(uid, set())
        for found in there:
            if found.number in told or found.number in given:
                continue
            self._recorder.record(
                about,
                reason=found.reason,
                message=found.message,
                severity=Severity.WARNING if found.warning else Severity.NORMAL,
                number=found.number,
                decision=found.decision,
                told=partial(self._became, uid, found.number),
            )
            given.add(found.number)
            self._in_line += 1
        _keep(self._told, uid, told)
        _keep(self._given, uid, given)

    def _became(self, uid: str, number: int, done: bool) -> None:
        self._in_line -= 1
        given = self._given.get(uid, set())
        given.discard(number)
        _keep(self._given, uid, given)
        if uid in self._jobs.by_uid:
            if done:
                self._told.setdefault(uid, set()).add(number)
                self._look_at(uid)
            else:
                self._waiting[uid] = None
        self._feed()


def _keep(numbers: dict[str, set[int]], uid: str, now: set[int]) -> None:
    if now:
        numbers[uid] = now
    else:
        numbers.pop(uid, None)
