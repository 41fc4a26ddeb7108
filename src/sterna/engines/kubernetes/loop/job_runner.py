"""Jobs carried on: whatever happens to one is looked at, written down and done, one thing at a time for each job.

A look is `reconcile`; here its results become true. Status goes first, with the version it was made from, and only then
what follows from it. A job in trouble is tried again after growing pauses, and never stops the others.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.client.backoff import Backoff
from sterna.engines.kubernetes.apiserver.objects import JobObject
from sterna.engines.kubernetes.apiserver.port import (
    Api,
    LacksRight,
    NotLeader,
    Refused,
    TooOften,
    Unreachable,
    Urgency,
    WriteConflict,
)
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.loop.carry_out import Hands
from sterna.engines.kubernetes.loop.dry_runs import DryRuns
from sterna.engines.kubernetes.loop.restore_pace import Restores
from sterna.engines.kubernetes.loop.slow_pass import SlowPass
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.reconcile.effects import CREATIONS, CreatePod, Effect
from sterna.engines.kubernetes.reconcile.intentions import decided_by, explained, is_others, takes_part
from sterna.engines.kubernetes.reconcile.job_view import Hindrance, JobView, MonitorAt, Options
from sterna.engines.kubernetes.reconcile.reconcile import Reconciled, reconcile
from sterna.engines.kubernetes.status.announcement_queue import Announcer
from sterna.engines.kubernetes.status.announcements import is_untidy, tidy_s
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.status.job_events import OF_PODS, JobEvent, Reason
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.engines.kubernetes.world.world import World
from sterna.engines.pacing import Happening
from sterna.lifecycle.admission_denials import Answer
from sterna.model.errors import Conflict, EngineUnavailable, NotFound, StaleView, SternaError
from sterna.model.why import Because

log = logging.getLogger(__name__)

_TOLD_AGAIN_S = 600.0

Intention = Callable[[JobView], Standing | None]  # None: it makes no sense any more
Written = Callable[[KnownJob, Standing, Standing], None]  # before and after


class Carrier:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        world: World,
        timeline: Timeline,
        recorder: Recorder,
        config: OperatorConfig,
        *,
        notice: Callable[[Happening], None],
        on_written: Written = lambda *_: None,
        monitor: MonitorAt | None = None,
        confirmed: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`confirmed`: does the API server say that this process leads? None: there is no other one."""
        self._api = api
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._recorder = recorder
        self._config = config
        self._notice = notice
        self._on_written = on_written
        self._monitor = monitor
        self._confirmed = confirmed
        self._hands = Hands(api, cache)
        self._dry_runs = DryRuns(api, timeline)
        self._announcer = Announcer(recorder, world.jobs, self._told)
        self._options = Options()
        self._dirty: dict[str, None] = {}
        self._carried: set[str] = set()
        self._turns: dict[str, _Turn] = {}  # by uid: of jobs that a task works on or waits for
        self._timers: dict[str, float] = {}
        self._slow_pass = SlowPass(config.look_again_s)
        self._backoffs: dict[str, Backoff] = {}
        self._undone: set[str] = set()  # whose latest look did not come to its end, and is tried again
        self._hindrances: dict[str, Hindrance] = {}  # by uid: what was refused, and when it is tried again
        self._restored = Restores()
        self._unsure: dict[str, _Unsure] = {}  # by uid: what was written, or was not
        self._why: dict[str, tuple[Because, str]] = {}  # by uid: why a job waits, and which decision said so
        self._told_of_fuse: dict[str, float] = {}  # by uid: when its owner was last told that a fuse has blown
        self._work = asyncio.Event()

    # -- news ---------------------------------------------------------------------------------------------------------

    def mark(self, uid: str) -> None:
        """Something happened to this job: look at it."""
        self._dirty[uid] = None
        self._work.set()

    def tell(self, job: KnownJob, event: JobEvent) -> None:
        """Something happened to it that is no matter of its status."""
        self._record(job, event)

    def tell_why(self, uid: str, because: Because, decision_id: str) -> None:
        """A job that waits is told why, once: numbers change all the time, reasons do not."""
        known = self._why.get(uid)
        self._why[uid] = (because, decision_id)
        if known is None or known[0].why is not because.why:
            self.mark(uid)

    @property
    def at_rest(self) -> bool:
        """Is no job being looked at, and did every latest look come to its end? One that failed is waited for."""
        return not self._dirty and not self._carried and not self._turns and not self._undone

    @property
    def has_told_all(self) -> bool:
        """Is every event recorded that a status speaks of?"""
        return self._announcer.at_rest

    # -- what is intended ---------------------------------------------------------------------------------------------

    async def intend(self, job: KnownJob, intention: Intention) -> bool:
        """Write down what a job is to hold from now on; pods follow. False: it makes no sense any more.

        `WriteConflict`: another client wrote first. `EngineUnavailable`, `EngineRefused`: it could not be written.
        """
        async with self._turn(job.uid):
            if job.uid not in self._world.jobs.by_uid:
                return False
            view = await self._believed(self._view(job))
            if not takes_part(view) or (standing := intention(view)) is None:
                return False
            if standing is not view.standing:
                done = reconcile(view.but(standing), self._timeline.now(), self._options, standing_only=True)
                try:
                    await self._write(job, view, done, Urgency.PLACE)
                except TooOften as error:
                    self._tell_of_fuse(job, error)
                    raise
            return True

    # -- carrying on --------------------------------------------------------------------------------------------------

    async def run(self, epoch: int) -> None:
        """Until the term ends: a task for every job that something happened to, one at a time for each job."""
        config = self._config
        self._options = Options(
            binding=config.binding,
            nudge=config.nudge,
            cluster_domain=config.cluster_domain,
            epoch=epoch,
            monitor=self._monitor,
            admission_patience_s=config.admission_patience_s,
        )
        self._timers.clear()
        self._slow_pass.begin()
        self._backoffs.clear()
        self._undone.clear()
        self._hindrances.clear()
        self._unsure.clear()
        self._why.clear()
        self._announcer.begin_term()
        for job in self._world.jobs:
            job.left = None
            self.mark(job.uid)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._send(group)
                    self._work.clear()
                    if self._can_send():
                        continue
                    next_s = min(self._slow_pass.next_s, min(self._timers.values(), default=math.inf))
                    await wait_for(self._work, next_s - self._timeline.now())
        finally:
            for job in self._world.jobs:
                job.left = None  # another leader writes from now on

    def _send(self, group: asyncio.TaskGroup) -> None:
        now_s = self._timeline.now()
        for uid in [uid for uid, moment in self._timers.items() if moment <= now_s]:
            del self._timers[uid]
            self._dirty[uid] = None
        for uid in self._slow_pass.due(now_s, self._world.jobs.by_uid):
            self._dirty[uid] = None
        for uid in list(self._dirty):
            if len(self._carried) >= self._config.in_flight:
                break
            if uid in self._carried:
                continue
            del self._dirty[uid]
            job = self._world.jobs.by_uid.get(uid)
            if job is None:
                self._forget(uid)
            else:
                self._carried.add(uid)
                self._slow_pass.add(uid, now_s)
                group.create_task(self._carry(job))

    def _can_send(self) -> bool:
        free = len(self._carried) < self._config.in_flight
        return free and any(uid not in self._carried for uid in self._dirty)

    async def _carry(self, job: KnownJob) -> None:
        moment: float | None = None
        self._undone.add(job.uid)
        try:
            async with self._turn(job.uid):
                moment = await self._look(job)
            self._backoffs.pop(job.uid, None)
            self._undone.discard(job.uid)
        except NotLeader:
            pass  # the new leader goes on
        except WriteConflict:
            moment = await self.read_again(job)
        except SternaError as error:
            moment = self._later(job, error)
        except Exception as error:  # the boundary of one job: the others must go on
            log.exception("job could not be carried on", extra={"job": job.id})
            self._record(job, JobEvent(Reason.OPERATOR_PROBLEM, f"{type(error).__name__}: {error}", warning=True))
            moment = self._later(job, error)
        finally:
            self._carried.discard(job.uid)
            self._work.set()
        if job.uid not in self._world.jobs.by_uid:
            self._undone.discard(job.uid)  # it went while it was looked at, and is not tried again
        if moment is None:
            self._timers.pop(job.uid, None)
        else:
            self._timers[job.uid] = moment

    async def _look(self, job: KnownJob) -> float | None:
        """Look, write, do. Answers when to look again."""
        if job.uid not in self._world.jobs.by_uid:
            return None
        view = await self._believed(self._view(job))
        if view.status.overwritten and (moment := self._restored.next_s(job.uid, self._timeline.now())) is not None:
            return moment
        if self._dry_runs.is_due(view):
            await self._dry_runs.ask(view, self._options)
            if job.uid not in self._world.jobs.by_uid:
                return None
            view = await self._believed(self._view(job))  # it may have been edited since
        view = view.but(self._dry_runs.noted(view))
        told = self._why.get(job.uid)
        if told is not None and not view.standing.seats and takes_part(view):
            because, decision_id = told
            view = view.but(decided_by(view, explained(view, because), decision_id))
        view = replace(view.but(self._world.lessons.noted(view)), told=self._announcer.told(job.uid))
        done = reconcile(view, self._timeline.now(), self._options)
        await self._write(job, view, done, Urgency.PLACE if done.effects else Urgency.REPORT)
        self._drop_hindrance(job, done.standing)
        if done.effects:
            carried = await self._hands.carry_out(job, done.effects)
            self._learn_from_created(view, done.effects)
            for event in carried.events:
                self._record(job, event)
            if carried.refused is not None:
                return await self._hindered(job, carried.refused)
            if carried.answer is not None:
                return await self._look_with(job, carried.answer)
            if carried.errors:
                raise carried.errors[0]
            if any(isinstance(effect, CREATIONS) for effect in done.effects):
                self._hindrances.pop(job.uid, None)
        tidy = tidy_s(done.standing)
        if tidy is not None and tidy <= self._timeline.now():
            tidy = None
        moments = (done.wake_s, tidy, self._dry_runs.wake_s(view.but(done.standing)))
        return min((moment for moment in moments if moment is not None), default=None)

    def _learn_from_created(self, view: JobView, effects: Sequence[Effect]) -> None:
        for effect in effects:
            pod = self._cache.pods.get(effect.name, view.namespace) if isinstance(effect, CreatePod) else None
            if pod is not None:
                self._dry_runs.learn(view, pod)

    async def _hindered(self, job: KnownJob, refused: Refused) -> float | None:
        """The API server did not make what the job needs: its status says so, and it is tried again after a while, or
        gives its seats back. Answers when to look again.
        """
        before, config, now_s = self._hindrances.get(job.uid), self._config, self._timeline.now()
        tries = 1 if before is None else before.tries + 1
        pause_s = min(config.retry_max_s, config.retry_s * 2.0 ** min(tries - 1, 20))
        denied = not isinstance(refused, LacksRight)
        log.warning(
            "pods are not let in" if denied else "pods may not be made by this operator",
            extra={"job": job.id, "why": str(refused), "seconds": round(pause_s, 1)},
        )
        message = refused.said if denied else str(refused)
        if job.uid not in self._world.jobs.by_uid:
            return None  # it went meanwhile
        self._hindrances[job.uid] = Hindrance(denied, message, now_s + pause_s, tries)
        view = await self._believed(self._view(job))
        done = reconcile(view, now_s, self._options, standing_only=True)
        await self._write(job, view, done, Urgency.REPORT)
        given_back = len(done.standing.seats) < len(view.standing.seats)
        self._drop_hindrance(job, done.standing)
        if job.uid not in self._hindrances and not given_back:
            raise refused  # nothing that it holds depends on it
        return done.wake_s

    async def _look_with(self, job: KnownJob, answer: Answer) -> float | None:
        """Whether more pods would be let in is known now, and written down. Answers when to look again."""
        if job.uid not in self._world.jobs.by_uid:
            return None
        view = replace(await self._believed(self._view(job)), answer=answer)
        done = reconcile(view, self._timeline.now(), self._options, standing_only=True)
        await self._write(job, view, done, Urgency.REPORT)
        return done.wake_s

    def _drop_hindrance(self, job: KnownJob, standing: Standing) -> None:
        """Once the job does not try any more for which it was refused."""
        hindrance, denial = self._hindrances.get(job.uid), standing.denial
        tries = bool(standing.seats) and (denial is not None and denial.tries)
        if hindrance is not None and not (tries if hindrance.denied else standing.seats):
            del self._hindrances[job.uid]

    def _view(self, job: KnownJob) -> JobView:
        return replace(self._world.jobs.view(job), hindrance=self._hindrances.get(job.uid))

    async def _believed(self, view: JobView) -> JobView:
        """A status of a later term than ours stops us, if there is such a term: else another client made the number up.

        What a later leader writes is written after it has the Lease, whose number never goes down. So a Lease that is
        ours, asked for after the status was seen, proves that there is none.
        """
        epoch = self._options.epoch
        if view.standing.epoch <= epoch or (self._confirmed is not None and not await self._confirmed()):
            return view
        return view.but(replace(view.standing, epoch=epoch))

    async def _write(self, job: KnownJob, view: JobView, done: Reconciled, urgency: Urgency) -> None:
        """Make it durable, and tell of it."""
        if done.status is not None:
            body = {"metadata": {"resourceVersion": view.resource_version}, "status": done.status}
            left_before, job.left = job.left, None  # the watch may tell of our own write before its answer comes
            try:
                found = await self._api.patch(
                    job.resource,
                    view.name,
                    body,
                    namespace=view.namespace,
                    subresource="status",
                    shape=JobObject,
                    urgency=urgency,
                )
            except WriteConflict:
                job.left = left_before  # it was not written: whatever stands there is another client's
                self._world.touch(job.uid)
                raise
            except Unreachable:
                self._unsure[job.uid] = self._with_earlier(job, _Unsure(view.status.recorded, done.happenings))
                raise
            job.left = found.status  # first: those that listen to the store ask what its status is
            self._cache.jobs[job.resource].put(found)
        elif not is_others(view):  # whose status is written by others
            job.left = job.object.status
        self._world.jobs.forget_vanished(job, view.vanished)
        self._announcer.announce(job)  # what the status says is told, be it of this look or of one before a crash
        for event in done.events if done.status is None else ():
            self._record(job, event)
        before, happenings = self._with_earlier(job, _Unsure(view.status.recorded, done.happenings))
        self._unsure.pop(job.uid, None)
        for happening in happenings:
            self._notice(happening)
        self._on_written(job, before, done.standing)

    def _with_earlier(self, job: KnownJob, now: "_Unsure") -> "_Unsure":
        """Together with what was not told because its write may have failed. If it did not, no later look would find
        anything new, and a part that waits for the news would wait for ever."""
        earlier = self._unsure.get(job.uid)
        return now if earlier is None else _Unsure(earlier.before, (*earlier.happenings, *now.happenings))

    async def read_again(self, job: KnownJob) -> float:
        """Another client wrote it: the watch will tell what, asking is sooner. Answers when to look again."""
        meta, store, now_s = job.object.metadata, self._cache.jobs[job.resource], self._timeline.now()
        try:
            store.put(await self._api.get(job.resource, meta.name, namespace=meta.namespace, shape=JobObject))
        except NotFound:
            store.forget(job.object)
        except SternaError:
            return now_s + self._config.retry_s
        return now_s

    def _tell_of_fuse(self, job: KnownJob, error: TooOften) -> None:
        """Once in a while: as long as a fight goes on, every try is held back for some time."""
        now_s = self._timeline.now()
        if now_s >= self._told_of_fuse.get(job.uid, 0.0) + _TOLD_AGAIN_S:
            self._told_of_fuse[job.uid] = now_s
            text = f"{error}; it is written with pauses until that ends"
            self._record(job, JobEvent(Reason.WRITTEN_TOO_OFTEN, text, warning=True))

    def _later(self, job: KnownJob, error: Exception) -> float:
        if isinstance(error, TooOften):
            self._tell_of_fuse(job, error)
        backoff = self._backoffs.get(job.uid)
        if backoff is None:
            backoff = self._backoffs[job.uid] = Backoff(self._config.retry_s, self._config.retry_max_s)
        pause_s = backoff.after()
        if isinstance(error, EngineUnavailable):
            pause_s = max(pause_s, error.retry_after_s)
        level = logging.INFO if isinstance(error, StaleView | Conflict) else logging.WARNING
        log.log(level, "job must wait", extra={"job": job.id, "why": str(error), "seconds": round(pause_s, 1)})
        return self._timeline.now() + pause_s

    def _record(self, job: KnownJob, event: JobEvent) -> None:
        meta = job.object.metadata
        about = About(job.resource.api_version, job.resource.kind, meta.namespace, meta.name, meta.uid)
        severity = Severity.WARNING if event.warning else Severity.NORMAL
        of_parts = event.reason in OF_PODS
        self._recorder.record(about, reason=event.reason, message=event.message, severity=severity, of_parts=of_parts)

    def _told(self, uid: str) -> None:
        """Something that its status tells of is recorded: it can leave, with the next write or when it is old."""
        job, now_s = self._world.jobs.by_uid.get(uid), self._timeline.now()
        if job is not None and is_untidy(job.status.recorded, self._announcer.told(uid), now_s):
            self.mark(uid)

    def _forget(self, uid: str) -> None:
        self._announcer.forget(uid)
        self._dry_runs.forget(uid)
        self._slow_pass.forget(uid)
        self._timers.pop(uid, None)
        self._backoffs.pop(uid, None)
        self._undone.discard(uid)
        self._hindrances.pop(uid, None)
        self._unsure.pop(uid, None)
        self._restored.forget(uid)
        self._why.pop(uid, None)
        self._told_of_fuse.pop(uid, None)

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        """One task at a time looks at a job and writes what follows, or each would undo the other's write."""
        turn = self._turns.setdefault(uid, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                self._turns.pop(uid, None)


class _Unsure(NamedTuple):
    """A write whose answer was lost: it may have happened."""

    before: Standing
    happenings: tuple[Happening, ...]


class _Turn:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0  # tasks that have it or wait for it
