"""Migration objects: requests to move work, and the record of what came of each.

Pending ones are proposals in an ordinary cycle; the job's open change names the one that it is carried out for, so that
an operator that is killed meanwhile finds both again. What has ended is a record, and is never carried out again. A
request reaches the jobs of its own namespace; one in the operator's namespace may empty a node of all namespaces' jobs.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.objects import MigrationObject
from sterna.engines.kubernetes.apiserver.port import MIGRATIONS, Api, Urgency
from sterna.engines.kubernetes.apiserver.timestamps import second_text
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.migrations.migration_index import MigrationIndex
from sterna.engines.kubernetes.migrations.migration_status import (
    Status,
    key_of,
    moving,
    name_of,
    over,
    phase_of,
    refused,
)
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.status.standing import Change, Past, Standing
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.engines.kubernetes.world.world import World
from sterna.engines.pacing import Happening
from sterna.lifecycle.asked_moves import Answer, Ask, Denied, Granted, Refusal, ask_of_job, cannot_move, tried
from sterna.model.errors import NotFound, SternaError
from sterna.model.ids import JobId, NodeId
from sterna.model.layout import Layout
from sterna.model.migrations import MIGRATION_ENDED, MigrationPhase, MigrationRequest
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.moving import Moving
from sterna.planner.decide import Placing

log = logging.getLogger(__name__)

ReadMigration = Callable[[Mapping[str, Any]], MigrationRequest]  # of an object; raises InvalidRequest


class _Open:
    """A request that has not ended; read once for every generation of its object."""

    __slots__ = ("found", "phase", "request")

    def __init__(self, found: MigrationObject) -> None:
        self.found = found
        self.phase = phase_of(found)
        self.request: MigrationRequest | Denied | None = None  # None: not read yet

    def now(self, found: MigrationObject) -> None:
        if bytes(found.spec) != bytes(self.found.spec) or found.metadata.generation != self.found.metadata.generation:
            self.request = None
        self.found, self.phase = found, phase_of(found)


class _Answers:
    """What one decision made of the requests. Made anew for each, so that none sees another's."""

    def __init__(self) -> None:
        self.asked: dict[JobId, str] = {}  # whose move was asked for, and by which object
        self.by_key: dict[str, Answer] = {}
        self._granted: dict[str, tuple[JobId, ...]] = {}

    def note(self, key: str, answer: Answer | None) -> None:
        """Pools answer one by one, and sizing may be tried again: the latest answer about a job counts."""
        if answer is None:
            return
        self.by_key[key] = answer
        for job_id in self._granted.pop(key, ()):
            if self.asked.get(job_id) == key:
                del self.asked[job_id]
        if isinstance(answer, Granted):
            self._granted[key] = answer.jobs
            self.asked.update(dict.fromkeys(answer.jobs, key))


class Migrations:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        world: World,
        timeline: Timeline,
        recorder: Recorder,
        config: OperatorConfig,
        read: ReadMigration,
        *,
        notice: Callable[[Happening], None],
    ) -> None:
        self._answers = _Answers()
        self._api = api
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._recorder = recorder
        self._config = config
        self._read = read
        self._notice = notice
        self._open: dict[str, _Open] = {}  # by namespace/name/uid, in order of arrival
        self._moving: dict[str, None] = {}  # of those, the ones whose jobs may have come to an end with them
        self._verdicts: dict[str, Status] = {}  # to be written
        self._work = asyncio.Event()
        self._index = MigrationIndex(cache, on_gone=self._may_be_over)
        cache.migrations.listen(self._changed)

    # -- news ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: MigrationObject | None, after: MigrationObject | None) -> None:
        found = after or before
        assert found is not None
        key = key_of(found)
        if after is None or after.terminating or phase_of(after) in MIGRATION_ENDED:
            self._open.pop(key, None)
            self._moving.pop(key, None)
            self._verdicts.pop(key, None)
            return
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = _Open(after)
            self._notice(Happening.PRIORITY_CHANGED)
        else:
            known.now(after)
        self._may_be_over(key)

    def _may_be_over(self, key: str) -> None:
        if key in self._open and self._open[key].phase is MigrationPhase.MOVING:
            self._moving[key] = None
            self._work.set()

    def written(self, job: KnownJob, before: Standing, after: Standing) -> None:
        """A job's status was written: a change that was asked for may be over."""
        was = before.change.migration if before.change is not None else ""
        if was and (after.change is None or after.change.migration != was):
            self._may_be_over(was)
            if self._open:
                self._notice(Happening.PRIORITY_CHANGED)  # others may have waited for this one

    @property
    def at_rest(self) -> bool:
        """Nothing waits to be written, and no request waits for an answer."""
        return not self._verdicts and not self._open

    # -- within a cycle -----------------------------------------------------------------------------------------------

    @property
    def asked(self) -> Mapping[JobId, str]:
        """By the decision under way: whose move was asked for, and by which object."""
        return self._answers.asked

    def placing(self, place: Placing) -> Placing:
        """The placement, and on top of it what was asked for and fits.

        Everything that it needs to know is found out now: it may be used beside whatever goes on meanwhile.
        """
        answers = self._answers = _Answers()
        questions = self._questions()
        for key, question in questions.items():
            if isinstance(question, Denied):
                answers.note(key, question)
        asks = [question for question in questions.values() if isinstance(question, Ask)]

        def placed(view: Snapshot, target: Target) -> Layout:
            moving = Moving(view, place(view, target))
            for ask in asks:
                try:
                    because = Because(Why.REQUESTED, (("by_migration", name_of(ask.key)),))
                    answers.note(ask.key, tried(moving, ask, because))
                except Exception as error:  # the boundary of one request: jobs must be placed whatever it asks
                    log.exception("a migration could not be tried", extra={"migration": ask.key})
                    text = f"it could not be tried: {type(error).__name__}: {error}"
                    answers.note(ask.key, Denied(Refusal.INVALID, text))
                    moving = Moving(view, moving.layout)  # what is free is not certain any more
            return moving.layout

        return placed

    def _questions(self) -> dict[str, Ask | Denied | None]:
        """What is to be tried for each request, in their order. None: nothing now."""
        counts = Counter(o.found.metadata.namespace for o in self._open.values() if o.phase is MigrationPhase.MOVING)
        earlier: dict[_Subject, dict[NodeId | None, str]] = {}
        questions: dict[str, Ask | Denied | None] = {}
        for key, known in self._open.items():
            where = known.found.metadata.namespace
            if known.phase is not MigrationPhase.MOVING:
                counts[where] += 1
                if counts[where] > self._config.migrations_max and not self._index.uids(key):
                    questions[key] = _too_many(where, self._config.migrations_max)
                    continue
            try:
                questions[key] = self._ask(key, known, earlier)
            except Exception as error:  # the boundary of one request
                log.exception("a migration could not be read", extra={"migration": key})
                text = f"it could not be read: {type(error).__name__}: {error}"
                questions[key] = Denied(Refusal.INVALID, text)
            request = self._request(known)
            if isinstance(request, MigrationRequest):
                same = earlier.setdefault(_subject(request), {})
                same.setdefault(request.to, key)
                same.setdefault(None, key)
        return questions

    def after_cycle(self) -> None:
        """What the cycle made of the requests: begun, over already, or refused for good."""
        now = second_text(self._timeline.now())
        for key, known in self._open.items():
            if known.phase is not MigrationPhase.PENDING or key in self._verdicts:
                continue
            changes, pasts = self._carried_out(key)
            if changes:
                self._verdicts[key] = moving(known.found, changes, now)
            elif pasts:
                self._verdicts[key] = over(known.found, pasts, now)
            elif (denied := self._why_refused(key, known)) is not None:
                self._verdicts[key] = refused(known.found, denied, now)
        if self._verdicts:
            self._work.set()

    def _why_refused(self, key: str, known: _Open) -> Denied | None:
        """None: it was granted and could not be begun, or has to wait for another change; the next cycle tries."""
        answer = self._answers.by_key.get(key)
        if answer is None:
            return self._why_absent(known)
        return answer if isinstance(answer, Denied) else None

    def _carried_out(self, key: str) -> tuple[list[Change], list[Past]]:
        """Changes of jobs that this request is carried out by, and those that are over."""
        changes: list[Change] = []
        pasts: list[Past] = []
        for _, standing in self._carriers(key):
            if standing.change is not None and standing.change.migration == key:
                changes.append(standing.change)
            pasts += [past for past in standing.history if past.migration == key]
        return changes, pasts

    def _carriers(self, key: str) -> Iterator[tuple[KnownJob, Standing]]:
        for uid in self._index.uids(key):
            job = self._world.jobs.by_uid.get(uid)
            if job is not None:
                yield job, job.status.recorded

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _ask(self, key: str, known: _Open, earlier: "_Earlier") -> Ask | Denied | None:
        """None: there is nothing to be tried now."""
        request = self._request(known)
        if isinstance(request, Denied):
            return request
        if request.node is not None:
            return self._ask_to_empty(key, request, request.node)
        job_id = JobId(f"{request.namespace}/{request.job}")
        job = self._world.owner(job_id)
        if job is None or request.kind not in (None, job.resource.kind):
            return None  # told once the whole cycle has not seen it
        standing = job.status.recorded
        change = standing.change
        if any(past.migration == key for past in standing.history) or (change is not None and change.migration != key):
            return None  # it is over; or the job is busy with another change, and this one waits
        if change is None:
            denied = _duplicate(request, earlier) or self._why_not(request, standing)
            if denied is not None:
                return denied
        begun = None if change is None else change.after
        return ask_of_job(key, job_id, standing.assigned, worker=request.worker, to=request.to, begun=begun)

    def _ask_to_empty(self, key: str, request: MigrationRequest, node: NodeId) -> Ask | Denied | None:
        if node not in self._world.roster.facts:
            return Denied(Refusal.NO_SUCH_NODE, f"there is no node {node}")
        begun = frozenset(job.id for job, standing in self._carriers(key) if _is_for(standing.change, key))
        avoid = frozenset({node})
        if begun:  # the jobs that it was begun for, and none that came since
            return Ask(key=key, node=node, among=begun, avoid=avoid)
        if self._index.uids(key):
            return None  # it is over
        namespace = "" if request.namespace == self._config.namespace else request.namespace
        return Ask(key=key, node=node, namespace=namespace, avoid=avoid)

    def _request(self, known: _Open) -> MigrationRequest | Denied:
        if known.request is None:
            meta = known.found.metadata
            metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "generation": meta.generation}
            document = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind, "metadata": metadata}
            try:
                known.request = self._read({**document, "spec": msgspec.json.decode(known.found.spec)})
            except SternaError as error:
                known.request = Denied(Refusal.INVALID, str(error))
        return known.request

    def _why_not(self, request: MigrationRequest, standing: Standing) -> Denied | None:
        """What can be told without looking for room."""
        if request.to is not None and request.to not in self._world.roster.facts:
            return Denied(Refusal.NO_SUCH_NODE, f"there is no node {request.to}")
        return cannot_move(request.job or "", standing.assigned, worker=request.worker, to=request.to)

    def _why_absent(self, known: _Open) -> Denied | None:
        """The cycle saw no job that it is about. None: another cycle may see one."""
        request = self._request(known)
        if isinstance(request, Denied):
            return request
        if request.node is not None:
            return Denied(Refusal.NOTHING_TO_MOVE, f"nothing that may be moved is on {request.node}")
        job_id = JobId(f"{request.namespace}/{request.job}")
        job = self._world.owner(job_id)
        if job is None or request.kind not in (None, job.resource.kind):
            what = f"{request.kind or 'job'} {request.job} in namespace {request.namespace}"
            return Denied(Refusal.NO_SUCH_JOB, f"there is no {what} that runs or waits")
        return None

    # -- what comes of it ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the term ends: write what has become of requests."""
        for key in list(self._open):
            self._may_be_over(key)
        while True:
            self._work.clear()
            again_s = await self._write_all()
            await wait_for(self._work, again_s)

    async def _write_all(self) -> float:
        """Answers in how many seconds to try again; infinite: all is written."""
        for key in self._moving:
            if key not in self._verdicts:
                changes, pasts = self._carried_out(key)
                if not changes:
                    self._verdicts[key] = over(self._open[key].found, pasts, second_text(self._timeline.now()))
        self._moving.clear()
        # Told first, and written when that is done: an operator that is killed in between finds the same verdict again,
        # and what it tells again is not counted twice. The other way round, it would never be told.
        verdicts = [(key, status, self._tell(key, status)) for key, status in self._verdicts.items()]
        again_s = math.inf
        for key, status, told in verdicts:
            await told.wait()
            if self._verdicts.get(key) is not status:
                continue  # it has ended, or was deleted, meanwhile
            known = self._open.get(key)
            if known is not None and not await self._is_written(known.found, status):
                again_s = self._config.retry_s
                continue
            if self._verdicts.get(key) is status:
                del self._verdicts[key]
        return again_s

    def _tell(self, key: str, status: Status) -> asyncio.Event:
        """Set once it is recorded, or cannot be."""
        told, known = asyncio.Event(), self._open.get(key)
        if known is None:
            told.set()
            return told
        meta = known.found.metadata
        about = About(MIGRATIONS.api_version, MIGRATIONS.kind, meta.namespace, meta.name, meta.uid)
        phase = status["phase"]
        bad = phase in (MigrationPhase.REFUSED, MigrationPhase.FAILED)
        self._recorder.record(
            about,
            reason=f"Migration{phase}",
            message=status["message"],
            severity=Severity.WARNING if bad else Severity.NORMAL,
            alike=phase,  # it comes to each phase once
            number=1,
            told=lambda _: told.set(),
        )
        return told

    async def _is_written(self, found: MigrationObject, status: Status) -> bool:
        """False: not now."""
        meta = found.metadata
        try:
            answer = await self._api.patch(
                MIGRATIONS,
                meta.name,
                {"metadata": {"uid": meta.uid}, "status": status},
                namespace=meta.namespace,
                subresource="status",
                shape=MigrationObject,
                urgency=Urgency.REPORT,
            )
        except NotFound:
            self._cache.migrations.forget(found)
        except SternaError as error:
            log.info("a migration could not be written", extra={"migration": key_of(found), "why": str(error)})
            return False
        else:
            self._cache.migrations.put(answer)
        return True


_Subject = tuple[str, str | None, int | None]
_Earlier = Mapping[_Subject, Mapping[NodeId | None, str]]  # and by target, None among them, the first that asked


def _subject(request: MigrationRequest) -> _Subject:
    return (request.namespace, request.job, request.worker)


def _duplicate(request: MigrationRequest, earlier: _Earlier) -> Denied | None:
    """Is the same asked for by an object that came before?"""
    other = earlier.get(_subject(request), {}).get(request.to)
    return None if other is None else Denied(Refusal.DUPLICATE, f"Migration {name_of(other)} asks for the same")


def _too_many(namespace: str, most: int) -> Denied:
    message = f"namespace {namespace} has {most} open Migrations, which is the most it may have; ask again later"
    return Denied(Refusal.TOO_MANY, message)


def _is_for(change: Change | None, key: str) -> bool:
    return change is not None and change.migration == key
