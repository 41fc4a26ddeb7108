"""The simulated engine, and what a simulation does not let happen to its jobs by itself: exits, owners, deadlines.

Those are played here by asking `lifecycle/`, as any engine does, and by telling the simulated engine what follows. What
the engine counts (service, waiting, time in the seat), places and loses is its own.
"""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from sterna.engines.loop import run_cycle
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.training import SimulatedJob
from sterna.engines.simulator.world import SimulatedEngine
from sterna.journal.journal import NoJournal
from sterna.lifecycle.gang_roles import Place
from sterna.lifecycle.outcome import Failure, Finish, another_try, final_failure, success, too_late
from sterna.model import conditions
from sterna.model.conditions import Conditions, ConditionType, Status, with_condition
from sterna.model.curves import SpeedupCurve
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Cluster, Effect, Guest, GuestKind, Taint
from sterna.model.phases import FINISHED, Phase
from sterna.model.plan import Decision, Shrink, Step
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.model.workload import Workload
from sterna.placement.rebalancing import Proposal, with_proposals
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings
from sterna.planner.reasons import Reasons
from sterna.policies.registry import policy
from sterna.wire.manifests import workload_of_object
from tests.engine_contract.facts import Declared, Says, Seen
from tests.engine_contract.played_world import POLICY, PlayedWorld, seen_of
from tests.engine_contract.worlds import GPUS, NODES
from tests.worlds import node

_LONG = 1e9  # units of work: no job of a story ends by having trained enough


class StoryEngine(SimulatedEngine):
    """With jobs that their owners may suspend, which a simulation's snapshot leaves out of account."""

    seen: Snapshot | None = None  # the latest

    def snapshot(self) -> Snapshot:
        self._revision += 1
        pods = [Guest(pod.id, pod.request, GuestKind.SERVING) for pod in self.serving]
        self.seen = Snapshot(
            revision=self._revision,
            now_s=self.now_s,
            cluster=self.cluster,
            jobs=tuple(self.jobs.values()),
            serving=tuple(pods),
            memory=self.memory,
            reserved=sum(pod.request[self.cluster.currency] for pod in pods),
        )
        return self.seen

    def put(self, job: Job) -> None:
        self._keep(job)

    def hold_leaving(self, told: Callable[[JobId], None] | None) -> None:
        self._on_leaving = told


@dataclass(slots=True)
class _Life:
    """What is known of a job beside what the simulated engine counts. Has the names of every engine's record."""

    workload: Workload
    job: Job
    reason: str = ""
    failures: int = 0
    failed_s: float | None = None
    retry_s: float | None = None
    active_s: float | None = None
    migrations: int = 0
    completed: frozenset[Place] = frozenset()
    conditions: Conditions = ()
    seat_s: float | None = None

    @property
    def phase(self) -> Phase:
        return self.job.phase

    @property
    def assigned(self) -> tuple[Worker, ...]:
        return self.job.workers

    @property
    def as_of_s(self) -> float:
        return self.job.as_of_s

    @property
    def gpu_s(self) -> float:
        return self.job.gpu_s

    @property
    def gpu_s_since_start(self) -> float:
        return self.job.gpu_s_since_start

    @property
    def ran_s(self) -> float:
        return self.job.ran_s

    @property
    def first_started_s(self) -> float | None:
        return self.job.first_started_s

    @property
    def started_s(self) -> float | None:
        return self.job.started_s

    @property
    def waiting_since_s(self) -> float | None:
        return self.job.waiting_since_s


class PlayedSimulator(PlayedWorld):
    @classmethod
    @asynccontextmanager
    async def begun(cls) -> AsyncIterator[PlayedWorld]:
        yield cls()

    def __init__(self) -> None:
        super().__init__()
        self._leaving: list[JobId] = []
        self._asked: dict[JobId, NodeId] = {}
        self._lives: dict[str, _Life] = {}
        self._size = policy(POLICY)
        self._place = placement(self._size.placement)
        self._engine = StoryEngine(
            Cluster.of([node(f"node-{number}", gpus=GPUS) for number in range(1, NODES + 1)]),
            Costs(),
            on_finish_known=lambda *_: None,
        )
        self._engine.now_s = self.clock.mono()

    async def submit(self, job: Declared) -> None:
        workload = workload_of_object(job.manifest()).workload
        spec = workload.job_spec(submitted_s=self._engine.now_s)
        self._engine.arrive(SimulatedJob(spec, PacedTraining(_LONG, SpeedupCurve.linear(spec.workers_max))))
        self._lives[job.name] = _Life(workload, self._engine.jobs[spec.id])
        self._tell(job.name, ConditionType.CREATED)
        if job.suspended:
            await self.suspend(job.name, suspended=True)

    async def end(self, job: str, worker: str, code: int) -> None:
        life = self._life(job)
        role, ordinal = worker.rsplit("-", 1)
        message = f"{worker}: exit code {code}"
        if code == 0:
            life.completed |= {(Role(role), int(ordinal))}
            if (over := success(life.workload, life.assigned, life.completed)) is not None:
                self._finish(job, over)
            return
        failure = Failure(life.workload.template(Role(role)).restart_policy, code, False, message)
        found = final_failure([failure]) or another_try(
            life.workload,
            failures=life.failures,
            failed_s=life.failed_s,
            now_s=self._engine.now_s,
            message=message,
        )
        if isinstance(found, Finish):
            self._finish(job, found)
            return
        life.failures, life.failed_s, life.completed = found.failures, self._engine.now_s, frozenset()
        life.retry_s = self._engine.now_s + found.after_s
        self._engine.put(life.job.but(resumes_s=life.retry_s))
        self._tell(job, ConditionType.RESTARTING)

    async def say(self, said: Says) -> None:
        raise NotImplementedError("a simulated policy is told the true work left: nothing is declared or learned")

    async def time_passed(self) -> None:
        now_s = self._engine.now_s = self.clock.mono()
        self._engine.judge_nodes()
        self._engine.settle_running()
        for name in list(self._lives):
            life = self._life(name)
            if life.phase not in FINISHED and (over := too_late(life.workload, life.active_s, now_s)) is not None:
                self._finish(name, over)
            elif life.retry_s is not None and life.retry_s <= now_s:
                life.retry_s = None
                self._tell(name, ConditionType.RUNNING)

    async def set_node_ready(self, node: str, *, ready: bool) -> None:
        self._change(node, NodeChange.RETURNED if ready else NodeChange.LOST)

    async def silence_node(self, node: str) -> None:
        self._change(node, NodeChange.SILENT)

    async def cordon(self, node: str) -> None:
        bare = self._engine.cluster.by_id[NodeId(node)]
        closed = replace(bare, taints=(Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE),))
        self._engine.change_node(NodeEvent(self._engine.now_s, NodeChange.ADDED, NodeId(node), closed))

    async def drain(self, node: str) -> None:
        self._change(node, NodeChange.DRAINED)

    async def suspend(self, job: str, *, suspended: bool) -> None:
        life = self._life(job)
        if suspended:
            await self._engine.apply([Shrink(life.job.id, (), Because(Why.SUSPENDED))])
            self._engine.commit()
            life = self._life(job)
            life.active_s = life.retry_s = None
            life.reason = str(Why.SUSPENDED)
            self._engine.put(life.job.but(phase=Phase.SUSPENDED, waiting_since_s=None))
            self._tell(job, ConditionType.SUSPENDED)
        else:
            self._engine.put(life.job.but(phase=Phase.WAITING, waiting_since_s=self._engine.now_s))
            self._tell(job, ConditionType.SUSPENDED, true=False)

    async def scale(self, job: str, at_least: int, at_most: int) -> None:
        life = self._life(job)
        spec = replace(life.job.spec, workers_min=at_least, workers_max=at_most, workers_initial=at_least)
        self._engine.put(life.job.but(spec=spec))

    async def delete(self, job: str) -> None:
        self._leave(self._life(job).job)
        del self._lives[job]

    async def ask_move(self, job: str, to: str) -> None:
        life = self._life(job)
        if all(worker.node == to for worker in life.assigned):
            self.refusals[job] = f"it is on {to} already"
        else:
            self._asked[life.job.id] = NodeId(to)

    async def hold_starts(self, *, held: bool) -> None:
        """A simulated worker trains from the moment it is held, and pays for its start in lost progress."""

    async def hold_stops(self, *, held: bool) -> None:
        """A worker that is told to go is gone at once, unless a story holds it."""
        self._engine.hold_leaving(self._leaving.append if held else None)
        if not held:
            for job_id in self._leaving:
                self._engine.released(job_id)
            self._leaving.clear()

    async def end_scheduler(self) -> None:
        """A simulation does not crash: what it knows is all there is."""

    async def begin_scheduler(self) -> None:
        """Nothing was lost."""

    async def serve(self, name: str, gpus: int) -> None:
        request = Resources(gpu_milli=gpus * WHOLE_GPU_MILLI)
        self._engine.serving.append(ServingPod(name, self._engine.now_s, math.inf, request))

    async def settle(self) -> None:
        """Nothing goes on here that nothing waits for."""

    async def cycle(self) -> tuple[Step, ...]:
        decision = await run_cycle(self._engine, self._size, self._placed, NoJournal(), Settings())
        self._engine.commit()
        self._engine.bind_serving()
        self._follow(decision)
        return decision.steps

    async def seen(self, job: str) -> Seen:
        if job not in self._lives:
            return Seen()
        life = self._life(job)
        return seen_of(
            life,
            life.job.spec,
            life.workload,
            life.conditions,
            clock=self.clock,
            units_left=None,
            events={},
            refusal=self.refusals.get(job, ""),
        )

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _life(self, name: str) -> _Life:
        life = self._lives[name]
        life.job = self._engine.jobs.get(life.job.id, life.job)
        if (live := self._engine.live.get(life.job.id)) is not None:
            life.migrations = live.migrations
            life.retry_s = live.retry_s if live.retry_s > self._engine.now_s else life.retry_s
        return life

    def _tell(self, name: str, kind: ConditionType, *, true: bool = True) -> None:
        life = self._lives[name]
        status = Status.TRUE if true else Status.FALSE
        news = conditions.said(kind, status, reason=kind.value, message="", now_s=self._engine.now_s)
        life.conditions = with_condition(life.conditions, news)

    def _change(self, node: str, change: NodeChange) -> None:
        self._engine.change_node(NodeEvent(self._engine.now_s, change, NodeId(node)))

    def _finish(self, name: str, over: Finish) -> None:
        self._engine.settle_running()
        life = self._life(name)
        self._leave(life.job)
        life.reason, life.retry_s = over.reason, None
        life.job = life.job.but(workers=(), leaving=(), phase=over.phase, started_s=None, waiting_since_s=None)
        self._tell(name, ConditionType.SUCCEEDED if over.phase is Phase.SUCCEEDED else ConditionType.FAILED)

    def _leave(self, job: Job) -> None:
        if job.workers:
            self._engine.finish(job.id, self._engine.now_s)
        else:
            self._engine.record(job.id, None)

    def _placed(self, view: Snapshot, target: Target) -> Layout:
        """The policy's placement, and on top of it the moves that were asked for."""
        layout = self._place(view, target)
        proposals = [
            Proposal(job_id, worker, to, Because(Why.REBALANCED), benefit_s=math.inf, cost_s=0.0)
            for job_id, to in self._asked.items()
            for worker in layout.workers_of(job_id)
            if worker.node != to
        ]
        return with_proposals(view, layout, proposals, moves_max=len(proposals)) if proposals else layout

    def _follow(self, decision: Decision) -> None:
        assert self._engine.seen is not None
        reasons = Reasons(self._engine.seen, decision)
        decided = {action.job_id: action.because for step in decision.steps for action in step.actions}
        for name in self._lives:
            life = self._life(name)
            job_id = life.job.id
            if life.phase in FINISHED or life.phase is Phase.SUSPENDED:
                continue
            if life.assigned:
                life.active_s = self._engine.now_s if life.active_s is None else life.active_s
                if life.retry_s is None:
                    self._tell(name, ConditionType.RUNNING)
            if job_id in decided:
                life.reason = str(decided[job_id].why)
            elif not life.assigned and job_id in self._engine.seen.by_id:
                life.reason = str(reasons.of(self._engine.seen.by_id[job_id]).why)
            self._follow_move(name, life, decision)

    def _follow_move(self, name: str, life: _Life, decision: Decision) -> None:
        to = self._asked.get(life.job.id)
        if to is None:
            return
        if all(worker.node == to for worker in life.assigned) and life.assigned:
            del self._asked[life.job.id]
        elif any(worker.node != to for worker in decision.layout.workers_of(life.job.id)):
            self.refusals[name] = f"there is no room for it on {to}"
            del self._asked[life.job.id]
