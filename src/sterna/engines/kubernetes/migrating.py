"""Migration objects: requests to move work, and the record of what came of each.

Pending ones are proposals in an ordinary cycle; the job's open change names the one that it is carried out for, so that
an operator that is killed meanwhile finds both again. What has ended is a record, and is never carried out again. A
request reaches the jobs of its own namespace; one in the operator's namespace may empty a node of everybody's.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from sterna.engines.kubernetes.api import MIGRATIONS, Api, Urgency
from sterna.engines.kubernetes.cache import Cache
from sterna.engines.kubernetes.known import KnownJob, status_of
from sterna.engines.kubernetes.migration_status import Status, key_of, moving, name_of, over, phase_of, refused
from sterna.engines.kubernetes.objects import MigrationObject
from sterna.engines.kubernetes.options import OperatorConfig
from sterna.engines.kubernetes.proposing import Answer, Ask, Denied, Granted, Refusal, is_worker, tried
from sterna.engines.kubernetes.recorder import About, Recorder, Severity
from sterna.engines.kubernetes.snapshot import World
from sterna.engines.kubernetes.standing import Change, Past, Standing
from sterna.engines.kubernetes.timeline import Timeline
from sterna.engines.kubernetes.times import second_text
from sterna.engines.kubernetes.waiting import wait_for
from sterna.engines.pacing import Happening
from sterna.model.errors import NotFound, SternaError
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.migrations import MIGRATION_ENDED, MigrationPhase, MigrationRequest
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.planner.decide import Placing

log = logging.getLogger(__name__)

ReadMigration = Callable[[Mapping[str, Any]], MigrationRequest]  # of an object; raises InvalidRequest


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
        self.asked: dict[JobId, str] = {}  # by the decision under way: whose move was asked for, and by which object
        self._answers: dict[str, Answer] = {}
        self._api = api
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._recorder = recorder
        self._config = config
        self._read = read
        self._notice = notice
        self._open: dict[str, MigrationObject] = {}  # not ended, by namespace/name, in order of arrival
        self._verdicts: dict[str, Status] = {}  # to be written
        self._work = asyncio.Event()
        cache.migrations.listen(self._changed)

    # -- news ---------------------------------------------------------------------------------------------------------

    def _changed(self, before: MigrationObject | None, after: MigrationObject | None) -> None:
        found = after or before
        assert found is not None
        key = key_of(found)
        if after is None or after.terminating or phase_of(after) in MIGRATION_ENDED:
            self._open.pop(key, None)
            self._verdicts.pop(key, None)
            return
        is_new = key not in self._open
        self._open[key] = after
        if is_new:
            self._notice(Happening.PRIORITY_CHANGED)

    def written(self, job: KnownJob, before: Standing, after: Standing) -> None:
        """A job's status was written: a change that somebody asked for may be over."""
        was = before.change.migration if before.change is not None else ""
        if was and (after.change is None or after.change.migration != was):
            self._work.set()
            if self._open:
                self._notice(Happening.PRIORITY_CHANGED)  # others may have waited for this one

    @property
    def at_rest(self) -> bool:
        """Nothing waits to be written, and nobody waits for an answer."""
        return not self._verdicts and not self._open

    # -- within a cycle -----------------------------------------------------------------------------------------------

    def placing(self, place: Placing) -> Placing:
        """The placement, and on top of it what was asked for and fits."""
        self.asked.clear()
        self._answers.clear()

        def placed(view: Snapshot, target: Target) -> Layout:
            layout = place(view, target)
            for key, found in self._open.items():
                layout = self._try(view, layout, key, found)
            return layout

        return placed

    def _try(self, view: Snapshot, layout: Layout, key: str, found: MigrationObject) -> Layout:
        try:
            ask = self._ask(key, found)
            if isinstance(ask, Denied):
                self._answers[key] = ask
            elif ask is not None:
                layout, answer = tried(view, layout, ask)
                self._note(key, answer)
        except Exception as error:  # the boundary of one request: jobs must be placed whatever somebody asks for
            log.exception("a migration could not be tried", extra={"migration": key})
            self._answers[key] = Denied(Refusal.INVALID, f"it could not be tried: {type(error).__name__}: {error}")
        return layout

    def _note(self, key: str, answer: Answer | None) -> None:
        """Pools answer one by one, and sizing may be tried again: the latest word about a job counts."""
        if answer is None:
            return
        self._answers[key] = answer
        for job_id in [job_id for job_id, asker in self.asked.items() if asker == key]:
            del self.asked[job_id]
        if isinstance(answer, Granted):
            self.asked.update(dict.fromkeys(answer.jobs, key))

    def after_cycle(self) -> None:
        """What the cycle made of the requests: begun, over already, or refused for good."""
        now = second_text(self._timeline.now())
        for key, found in list(self._open.items()):
            if phase_of(found) is not MigrationPhase.PENDING or key in self._verdicts:
                continue
            changes, pasts = self._carried_out(key, found)
            if changes:
                self._verdicts[key] = moving(found, changes, now)
            elif pasts:
                self._verdicts[key] = over(found, pasts, now)
            elif (denied := self._why_refused(key, found)) is not None:
                self._verdicts[key] = refused(found, denied, now)
        if self._verdicts:
            self._work.set()

    def _why_refused(self, key: str, found: MigrationObject) -> Denied | None:
        """None: it was granted and could not be begun, or has to wait for another change; the next cycle tries."""
        answer = self._answers.get(key)
        if answer is None:
            return self._why_absent(found)
        return answer if isinstance(answer, Denied) else None

    def _carried_out(self, key: str, found: MigrationObject) -> tuple[list[Change], list[Past]]:
        """Changes of jobs that this request is carried out by, and those that are over."""
        request = self._request(found)
        jobs: Iterable[KnownJob] = self._world.jobs
        if isinstance(request, MigrationRequest) and request.job is not None:
            jobs = self._world.jobs.named(JobId(f"{request.namespace}/{request.job}"))
        changes: list[Change] = []
        pasts: list[Past] = []
        for job in jobs:
            standing = status_of(job.object).recorded
            if standing.change is not None and standing.change.migration == key:
                changes.append(standing.change)
            pasts += [past for past in standing.history if past.migration == key]
        return changes, pasts

    def _is_about(self, job_id: JobId, key: str) -> bool:
        job = self._world.owner(job_id)
        change = None if job is None else status_of(job.object).recorded.change
        return change is not None and change.migration == key

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _ask(self, key: str, found: MigrationObject) -> Ask | Denied | None:
        """None: there is nothing to be tried now."""
        request = self._request(found)
        if isinstance(request, Denied):
            return request
        if request.node is not None:
            return self._ask_to_empty(key, found, request, request.node)
        job_id = JobId(f"{request.namespace}/{request.job}")
        job = self._world.owner(job_id)
        if job is None or request.kind not in (None, job.resource.kind):
            return None  # told once the whole cycle has not seen it
        standing = status_of(job.object).recorded
        change = standing.change
        if any(past.migration == key for past in standing.history) or (change is not None and change.migration != key):
            return None  # it is over; or the job is busy with another change, and this one waits
        if change is None:
            denied = self._duplicate(key, request) or self._why_not(request, standing)
            if denied is not None:
                return denied

        def meant(value: Job, worker: Worker) -> bool:
            return value.id == job_id and is_worker(worker, request.worker)

        if change is not None:  # it has begun: whatever is placed anew goes where it was to go
            return Ask(key, meant, frozenset(w.node for w in change.after if is_worker(w, request.worker)))
        if request.to is not None:
            return Ask(key, meant, frozenset({request.to}))
        here = frozenset(w.node for w in standing.assigned if is_worker(w, request.worker))
        return Ask(key, meant, avoid=here)

    def _ask_to_empty(
        self, key: str, found: MigrationObject, request: MigrationRequest, node: NodeId
    ) -> Ask | Denied | None:
        if node not in self._world.roster.facts:
            return Denied(Refusal.NO_SUCH_NODE, f"there is no node {node}")
        changes, pasts = self._carried_out(key, found)
        if changes:  # those that it was begun for, and nobody who came since
            return Ask(key, lambda job, w: w.node == node and self._is_about(job.id, key), avoid=frozenset({node}))
        if pasts:
            return None
        prefix = "" if request.namespace == self._config.namespace else f"{request.namespace}/"
        return Ask(key, lambda job, w: w.node == node and job.id.startswith(prefix), avoid=frozenset({node}))

    def _request(self, found: MigrationObject) -> MigrationRequest | Denied:
        meta = found.metadata
        metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "generation": meta.generation}
        document = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind, "metadata": metadata}
        try:
            return self._read({**document, "spec": msgspec.json.decode(found.spec)})
        except SternaError as error:
            return Denied(Refusal.INVALID, str(error))

    def _duplicate(self, key: str, request: MigrationRequest) -> Denied | None:
        """Is the same asked for by an object that came before?"""
        for other_key, other in self._open.items():
            if other_key == key:
                return None
            asked = self._request(other)
            if isinstance(asked, Denied) or _subject(asked) != _subject(request):
                continue
            if request.to in (None, asked.to):
                return Denied(Refusal.DUPLICATE, f"Migration {name_of(other_key)} asks for the same")
        return None

    def _why_not(self, request: MigrationRequest, standing: Standing) -> Denied | None:
        """What can be told without looking for room."""
        if request.to is not None and request.to not in self._world.roster.facts:
            return Denied(Refusal.NO_SUCH_NODE, f"there is no node {request.to}")
        if not standing.seats:
            return Denied(Refusal.NOTHING_TO_MOVE, f"job {request.job} holds no workers: there is nothing to move")
        meant = [worker for worker in standing.assigned if is_worker(worker, request.worker)]
        if not meant:
            numbers = ", ".join(
                str(worker.ordinal) for worker in standing.assigned if is_worker(worker, worker.ordinal)
            )
            return Denied(
                Refusal.NO_SUCH_WORKER, f"job {request.job} has no worker {request.worker}; it has: {numbers}"
            )
        if all(worker.node == request.to for worker in meant):
            return Denied(Refusal.SAME_NODE, f"job {request.job} is on {request.to} already")
        return None

    def _why_absent(self, found: MigrationObject) -> Denied | None:
        """Nobody whom it is about was seen by the cycle. None: it may be seen by another one."""
        request = self._request(found)
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
        again_s = math.inf
        while True:
            self._work.clear()
            again_s = await self._write_all()
            await wait_for(self._work, again_s)

    async def _write_all(self) -> float:
        """Answers in how many seconds to try again; infinite: all is written."""
        for key, found in list(self._open.items()):
            if key not in self._verdicts and phase_of(found) is MigrationPhase.MOVING:
                changes, pasts = self._carried_out(key, found)
                if not changes:
                    self._verdicts[key] = over(found, pasts, second_text(self._timeline.now()))
        again_s = math.inf
        for key, status in list(self._verdicts.items()):
            known = self._open.get(key)
            if known is not None and not await self._is_written(known, status):
                again_s = self._config.retry_s
                continue
            if self._verdicts.get(key) is status:
                del self._verdicts[key]
        return again_s

    async def _is_written(self, found: MigrationObject, status: Status) -> bool:
        """False: not now."""
        try:
            await self._write(found, status)
        except NotFound:
            self._cache.migrations.forget(found)
        except SternaError as error:
            log.info("a migration could not be written", extra={"migration": key_of(found), "why": str(error)})
            return False
        return True

    async def _write(self, found: MigrationObject, status: Status) -> None:
        meta = found.metadata
        answer = await self._api.patch(
            MIGRATIONS,
            meta.name,
            {"metadata": {"uid": meta.uid}, "status": status},
            namespace=meta.namespace,
            subresource="status",
            shape=MigrationObject,
            urgency=Urgency.REPORT,
        )
        self._cache.migrations.put(answer)
        about = About(MIGRATIONS.api_version, MIGRATIONS.kind, meta.namespace, meta.name, meta.uid)
        bad = status["phase"] in (MigrationPhase.REFUSED, MigrationPhase.FAILED)
        severity = Severity.WARNING if bad else Severity.NORMAL
        self._recorder.record(about, reason=f"Migration{status['phase']}", message=status["message"], severity=severity)


def _subject(request: MigrationRequest) -> tuple[str, str | None, int | None]:
    return (request.namespace, request.job, request.worker)
