"""The Kubernetes engine as the loop sees it: reports how things stand, takes decisions as what is to be from now on.

`apply` writes intentions into the status of jobs, each with the version that it was decided from; pods follow
(`job_runner.py`). What a policy remembers is kept in a ConfigMap, which is written only when it changed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from sterna.engines.action_log import log_outcome
from sterna.engines.kubernetes.apiserver.own_configmaps import own_data, write_data
from sterna.engines.kubernetes.apiserver.port import Api, NotLeader, WriteConflict
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.loop.job_runner import Carrier
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import MEMORY, OperatorConfig
from sterna.engines.kubernetes.progress.policy_memory import memory_data, memory_of
from sterna.engines.kubernetes.reconcile.intentions import decided_by, given_up, grown, shrunk
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.engines.kubernetes.world.world import World
from sterna.model.errors import EngineRefused, EngineUnavailable, InvalidRequest, StaleView, SternaError
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.plan import Action, Decision, Grow, Held, Outcome, Shrink
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.model.why import Because
from sterna.planner.reasons import Reasons

log = logging.getLogger(__name__)


class KubernetesEngine:
    """Implements `Engine`."""

    def __init__(
        self, api: Api, cache: Cache, world: World, carrier: Carrier, timeline: Timeline, config: OperatorConfig
    ) -> None:
        self.decision: Decision | None = None  # the latest
        self.view: Snapshot | None = None  # ... and what it was made from
        self.decision_id = ""  # of the decision under way, as logs, events and the journal name it
        self.wake_s: float | None = None
        self.again_s: float | None = None  # an action did not hold: look again at this moment. None: all held
        self.asked: Mapping[JobId, str] = {}  # jobs whose move was asked for, and by which object
        self._seen: dict[JobId, str] = {}  # uids of the jobs that the decision under way is about
        self._grows: dict[JobId, Grow] = {}  # what the decision under way has for a job after its shrink
        self._api = api
        self._cache = cache
        self._world = world
        self._carrier = carrier
        self._timeline = timeline
        self._config = config
        self.memory = PolicyMemory()  # what the policy carries into the next cycle
        self._kept: dict[str, str] | None = None  # as the ConfigMap has it. None: there is none

    def begin_term(self) -> None:
        """Take over what an earlier leader remembered."""
        found = own_data(self._cache, MEMORY, namespace=self._config.namespace)
        self._kept = None if found is None else dict(found)
        self.decision = self.view = self.wake_s = self.again_s = None
        try:
            self.memory = memory_of(self._kept)
        except InvalidRequest as error:
            log.error("what policies remembered cannot be read", extra={"why": str(error)})
            self.memory = PolicyMemory()

    # -- Engine -------------------------------------------------------------------------------------------------------

    async def observe(self) -> Snapshot:
        self.again_s = None
        self.view = self._world.snapshot(self._timeline.now(), self.memory)
        self._seen = self._world.owners()
        return self.view

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._applied(action)) for action in actions]
        return [task.result() for task in tasks]

    async def remember(self, decision: Decision) -> None:
        self.decision = decision
        self._grows = {
            action.job_id: action
            for step in reversed(decision.steps)  # of several the first
            for action in reversed(step.actions)
            if isinstance(action, Grow)
        }
        self.wake_s = decision.wake_s
        if decision.memory != self.memory:
            await self._keep(decision.memory)
        await self._let_go_of_returns(decision)
        self._tell_who_waits(decision)

    # -- what is intended ---------------------------------------------------------------------------------------------

    def _owner(self, job_id: JobId) -> KnownJob | None:
        """The very job that the decision is about. None: it is gone, or another job has its name by now."""
        job = self._world.owner(job_id)
        return job if job is not None and self._seen.get(job_id, job.uid) == job.uid else None

    async def _applied(self, action: Action) -> Outcome:
        began_s = self._timeline.now()
        outcome = await self._take(action)
        seen = None if self.view is None else self.view.by_id.get(action.job_id)
        log_outcome(
            outcome,
            before=() if seen is None else seen.workers,
            decision_id=self.decision_id,
            took_s=self._timeline.now() - began_s,
        )
        return outcome

    async def _take(self, action: Action) -> Outcome:
        job = self._owner(action.job_id)
        if job is None:
            return self._not_held(action, Held.STALE, "the job is gone or has ended", 0.0)
        migration, decision_id = self.asked.get(action.job_id, ""), self.decision_id

        def intention(view: JobView) -> Standing | None:
            now_s = self._timeline.now()
            standing: Standing | None
            if isinstance(action, Shrink):
                standing = shrunk(view, action, self._grows.get(action.job_id), now_s, migration=migration)
            else:
                standing = grown(view, action, now_s, migration=migration)
            return None if standing is None else decided_by(view, standing, decision_id)

        try:
            if not await self._carrier.intend(job, intention):
                return self._not_held(
                    action, Held.STALE, "the job has ended, was suspended or holds something else", 0.0
                )
        except WriteConflict as error:
            await self._carrier.read_again(job)
            return self._not_held(action, Held.STALE, str(error), 0.0)
        except StaleView as error:
            return self._not_held(action, Held.STALE, str(error), 0.0)
        except EngineUnavailable as error:
            return self._not_held(action, Held.TRY_AGAIN, str(error), error.retry_after_s)
        except EngineRefused as error:  # the others are decided about without it, or none would get anything
            self._world.set_aside(job.uid, self._timeline.now() + self._config.retry_max_s)
            return self._not_held(action, Held.REFUSED, str(error), self._config.retry_max_s)
        except SternaError as error:
            return self._not_held(action, Held.STALE, str(error), self._config.retry_s)
        value = self._world.value(action.job_id)
        leaves = isinstance(action, Shrink) and value is not None and bool(value.leaving)
        return Outcome(action, Held.BEGUN if leaves else Held.DONE)

    def _not_held(self, action: Action, held: Held, message: str, after_s: float) -> Outcome:
        moment = self._timeline.now() + after_s
        self.again_s = moment if self.again_s is None else min(self.again_s, moment)
        return Outcome(action, held, message, after_s)

    # -- what is remembered -------------------------------------------------------------------------------------------

    async def _keep(self, memory: PolicyMemory) -> None:
        """Written before the decision is carried out; if that fails, the decision is not carried out."""
        data = memory_data(memory)
        if data != self._kept:
            await write_data(self._api, self._cache, MEMORY, data, namespace=self._config.namespace)
            self._kept = data
        self.memory = memory

    async def _let_go_of_returns(self, decision: Decision) -> None:
        """Jobs that let go of everything in order to come back, and that nothing is there for now.

        As the decision saw them: it says nothing about what has happened to a job since.
        """
        seen = () if self.view is None else self.view.jobs
        lost = [
            value.id
            for value in seen
            if value.phase is Phase.RESIZING
            and decision.layout.workers_of(value.id) == value.workers
            and self._is_as(value)
        ]
        for job_id in lost:
            await self._give_up(job_id, decision.because_of(job_id))

    def _is_as(self, value: Job) -> bool:
        now = self._world.value(value.id)
        return now is not None and now.phase is value.phase and now.workers == value.workers

    async def _give_up(self, job_id: JobId, because: Because) -> None:
        job = self._owner(job_id)
        if job is None:
            return
        try:
            now_s, decision_id = self._timeline.now(), self.decision_id
            await self._carrier.intend(job, lambda view: decided_by(view, given_up(view, because, now_s), decision_id))
        except NotLeader:
            raise
        except SternaError as error:  # the next decision finds it so again
            log.info("job not told to wait", extra={"job": job_id, "why": str(error)})

    def _tell_who_waits(self, decision: Decision) -> None:
        if self.view is None:
            return
        reasons = Reasons(self.view, decision)
        for value in self.view.jobs:
            waits = value.wants_workers and not value.workers and not value.leaving
            if waits and not decision.layout.workers_of(value.id):
                job = self._owner(value.id)
                if job is not None:
                    self._carrier.tell_why(job.uid, reasons.of(value), self.decision_id)
