"""The simulation: a clock that jumps from event to event, and the real cycle at every moment that asks for one."""

import heapq
import math
import random
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from sterna.engines.loop import run_at_once, run_cycle
from sterna.engines.pacing import Happening, Pacer
from sterna.engines.simulator.evaluations import Evaluations
from sterna.engines.simulator.misfortune import Costs, Faults
from sterna.engines.simulator.node_sharing import SharingEngine
from sterna.engines.simulator.results import Considered, JobRecord, Sample, SimulationResult
from sterna.engines.simulator.training import SimulatedJob
from sterna.engines.simulator.world import SimulatedEngine
from sterna.journal.journal import Journal, NoJournal
from sterna.model.errors import InvalidRequest, InvariantBroken
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import JobId
from sterna.model.judging import Judge
from sterna.model.learning import Knowledge
from sterna.model.nodes import Cluster, Node
from sterna.model.plan import Action, Outcome
from sterna.model.snapshot import Snapshot
from sterna.planner.decide import Placing, Settings, Sizing, decide
from sterna.planner.reasons import Reasons

_PATIENCE_S = 86_400.0  # a cluster in which nothing runs and nothing changes for so long never will change again
_SEGMENTS_FOR_JOBS_MAX = 20_000  # beyond this a Gantt chart is of no use, and its bars would be most of the memory


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """All that a run depends on. Two runs of equal simulations are equal."""

    nodes: Sequence[Node]
    jobs: Sequence[SimulatedJob]
    size: Sizing
    place: Placing
    settings: Settings = field(default_factory=Settings)
    costs: Costs = Costs()
    interval_s: float | None = None  # cycles only at multiples of this. None: whenever something happens
    rate_limit_s: float = 0.0  # least time between the end of a cycle and the next; rounds before are left out
    whole_seconds: bool = False  # arrivals and finishes are rounded up, as in simulators that count seconds
    foretells_again: bool = False  # every finish is worked out anew at every event, its rounding included, as in AFS
    grace_s: float = 0.0  # how long workers that were told to go still take room
    checkpoint_every_s: float = 600.0  # what a lost node can cost at most
    knowledge: Knowledge | None = None  # what policies learn from; None: they are told true speeds
    node_events: Sequence[NodeEvent] = ()
    serving: Sequence[ServingPod] = ()
    faults: Faults | None = None
    shares_cpu: bool = False  # containers compete for the CPU of their node, so that neighbours slow each other down
    judge: Judge | None = None  # of evaluations, taken as often as it checks. None: none are taken
    seed: int = 0
    policy_name: str = ""
    trace_name: str = ""


class _Crash(Exception):
    """The scheduler died between two steps of a plan."""


class _Run:
    """One run: the event queue around a simulated engine."""

    def __init__(self, setup: Simulation, journal: Journal, observer: Callable[[Snapshot], None] | None) -> None:
        self._setup = setup
        self._journal = journal
        self._observer = observer
        self._chance = random.Random(setup.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._finishes: list[tuple[float, JobId, int]] = []
        self._pacer = Pacer(rate_limit_s=setup.rate_limit_s)
        self.engine = self._new_engine()
        self.arrivals = sorted(setup.jobs, key=lambda job: (self._shown(job.spec.submitted_s), job.spec.id))
        self._arrivals_s = [self._shown(job.spec.submitted_s) for job in self.arrivals]
        self._next_arrival = 0
        self._round = 0
        self._wake_s: float | None = None
        self._changed_s = 0.0  # when a job last came, went, or got or lost workers
        self._expected_s = 0.0  # when the last thing happens that the scenario announces
        self.records: list[JobRecord] = []
        self.samples: list[Sample] = []
        self.decision_s = array("d")
        self.considered: list[Considered] = []
        self._evaluations = None if setup.judge is None else Evaluations(setup.judge)
        self._check_is_set = False

    def _new_engine(self) -> SimulatedEngine:
        setup = self._setup
        made = _ENGINES[setup.shares_cpu, setup.faults is not None](
            Cluster.of(setup.nodes),
            setup.costs,
            on_finish_known=self._finish_known,
            on_leaving=self._leaving if setup.grace_s else None,
            checkpoint_every_s=setup.checkpoint_every_s,
            keep_segments=len(setup.jobs) <= _SEGMENTS_FOR_JOBS_MAX,
            knowledge=setup.knowledge,
            seed=setup.seed,
        )
        if setup.faults is not None and isinstance(made, _Faulty):
            made.fate = (self._chance, setup.faults.crashes_mid_plan)
        return made

    def go(self, on_progress: Callable[[int, int], None] | None) -> None:
        self._schedule_happenings()
        self._sample()
        total = len(self.arrivals)
        reported = 0
        while True:
            now_s = self._next_moment()
            if now_s is None:
                break
            self.engine.now_s = now_s
            self._take_events(now_s)
            if self._cycle_is_due(now_s):
                self._cycle(now_s)
            if on_progress is not None and len(self.records) >= reported + 100:
                reported = len(self.records)
                on_progress(reported, total)
        self._close_books()

    # -- time -----------------------------------------------------------------------------------------------------

    def _next_moment(self) -> float | None:
        """The earliest thing that can still happen; None when every job is done or nothing can help the rest."""
        engine = self.engine
        if self._next_arrival >= len(self.arrivals):
            quiet_s = engine.now_s - max(self._changed_s, self._expected_s)
            stuck = not engine.running and quiet_s > _PATIENCE_S
            if not engine.jobs or stuck:
                return None
        moment = math.inf
        if self._next_arrival < len(self.arrivals):
            moment = self._arrivals_s[self._next_arrival]
        finishes, live = self._finishes, self.engine.live
        while finishes:
            finish_s, job_id, version = finishes[0]
            job = live.get(job_id)
            if job is not None and job.version == version:
                moment = min(moment, finish_s)
                break
            heapq.heappop(finishes)  # announced for workers that the job no longer holds
        if self._events:
            moment = min(moment, self._events[0][0])
        cycle_s = self._next_cycle_s(moment)
        if cycle_s is not None:
            moment = min(moment, cycle_s)
        return moment if moment < math.inf else None

    def _next_cycle_s(self, moment: float) -> float | None:
        now_s = self.engine.now_s
        if self._setup.interval_s is not None:
            if not self.engine.jobs:
                return None
            stuck = not self.engine.running and self._wake_s is None and self._pacer.due_s(now_s) is None
            if stuck and moment == math.inf:
                return None  # nothing runs, nothing will come, and the last round started nothing
            return self._round * self._setup.interval_s
        due_s = self._pacer.due_s(now_s)
        if self._wake_s is not None and self._wake_s < math.inf:
            blocked_s = self._wake_s
            due_s = blocked_s if due_s is None else min(due_s, blocked_s)
        return due_s

    def _cycle_is_due(self, now_s: float) -> bool:
        interval_s = self._setup.interval_s
        if interval_s is not None:
            if not self._is_round(now_s) or not self.engine.jobs:
                return False
            self._round += 1
            return self._pacer.is_free(now_s)  # a round that comes too soon after the last cycle is left out
        if self._wake_s is not None and self._wake_s <= now_s:
            self._wake_s = None
            self._pacer.notice(Happening.TIMER)
        due_s = self._pacer.due_s(now_s)
        return due_s is not None and due_s <= now_s

    def _shown(self, moment_s: float) -> float:
        return math.ceil(moment_s) if self._setup.whole_seconds else moment_s

    # -- events ---------------------------------------------------------------------------------------------------

    def _take_events(self, now_s: float) -> None:
        """Everything that happens at this very moment, before anything is decided."""
        engine = self.engine
        while self._events and self._events[0][0] <= now_s:
            heapq.heappop(self._events)[2]()
        finishes = self._finishes
        while finishes and finishes[0][0] <= now_s:
            finish_s, job_id, version = heapq.heappop(finishes)
            job = engine.live.get(job_id)
            if job is not None and job.version == version:
                self._finished(job_id, finish_s)
        if engine.unpredictable and self._is_round(now_s):
            for job_id, done_s in engine.advance_unpredictable():
                self._finished(job_id, done_s)
        while self._next_arrival < len(self.arrivals) and self._arrivals_s[self._next_arrival] <= now_s:
            engine.arrive(self.arrivals[self._next_arrival])
            if self._evaluations is not None:
                self._evaluations.follow(self.arrivals[self._next_arrival])
                self._set_check()
            self._next_arrival += 1
            self._notice(Happening.JOB_ACCEPTED)

    def _is_round(self, now_s: float) -> bool:
        """Is this moment the next round, or is there none? Rounds without jobs are passed over."""
        interval_s = self._setup.interval_s
        if interval_s is None:
            return True
        self._round = max(self._round, math.ceil(now_s / interval_s))
        return now_s >= self._round * interval_s

    def _finished(self, job_id: JobId, finished_s: float) -> None:
        self.records.append(self.engine.finish(job_id, finished_s))
        self._notice(Happening.JOB_COMPLETED)
        self._sample()

    def _finish_known(self, finish_s: float, job_id: JobId, version: int) -> None:
        heapq.heappush(self._finishes, (self._shown(finish_s), job_id, version))

    def _leaving(self, job_id: JobId) -> None:
        self._at(self.engine.now_s + self._setup.grace_s, lambda: self._gone(job_id))

    def _gone(self, job_id: JobId) -> None:
        self.engine.released(job_id)
        self._notice(Happening.WORKERS_GONE)

    def _notice(self, happening: Happening) -> None:
        faults = self._setup.faults
        if faults is None or self._chance.random() >= faults.lost_wakes:
            self._pacer.notice(happening)

    def _at(self, at_s: float, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at_s, self._sequence, what))

    def _set_check(self) -> None:
        """The next evaluation, at a multiple of its interval as long as there are jobs."""
        if self._evaluations is not None and not self._check_is_set:
            every_s = self._evaluations.every_s
            self._check_is_set = True
            self._at((math.floor(self.engine.now_s / every_s) + 1) * every_s, self._check)

    def _check(self) -> None:
        self._check_is_set = False
        if self._evaluations is not None and self.engine.jobs:
            self._evaluations.take(self.engine)
            self._set_check()

    # -- the cluster's own life -----------------------------------------------------------------------------------

    def _schedule_happenings(self) -> None:
        for event in self._setup.node_events:
            self._at(event.at_s, partial(self._node_changed, event))
        for pod in self._setup.serving:
            self._at(pod.at_s, partial(self._serving_arrived, pod))
        announced = [event.at_s for event in self._setup.node_events]
        self._expected_s = max([*announced, *(pod.at_s + pod.lasts_s for pod in self._setup.serving)], default=0.0)
        faults = self._setup.faults
        if faults is not None:
            self._at(faults.resync_s, self._resync)
            if faults.node_losses_per_day > 0:
                self._at(self._next_loss_s(), self._lose_a_node)

    def _node_changed(self, event: NodeEvent) -> None:
        if event.change is not NodeChange.ADDED and event.node_id not in self.engine.cluster.by_id:
            names = ", ".join(list(self.engine.cluster.by_id)[:5])
            raise InvalidRequest(field="node event: node", value=event.node_id, expected=f"a node such as {names}")
        self._judge_nodes_at(self.engine.change_node(event))
        self._notice(Happening.NODE_CHANGED)

    def _judge_nodes_at(self, at_s: float | None) -> None:
        """Nodes that flap are given new work once they have been steady for a while."""
        if at_s is not None:
            self._at(at_s, self._judge_nodes)

    def _judge_nodes(self) -> None:
        self._judge_nodes_at(self.engine.judge_nodes())
        self._notice(Happening.NODE_CHANGED)

    def _serving_arrived(self, pod: ServingPod) -> None:
        self.engine.serving.append(pod)
        self._at(pod.at_s + pod.lasts_s, lambda: self._serving_left(pod))
        self._bind_serving()
        self._notice(Happening.SERVING_ARRIVED)

    def _serving_left(self, pod: ServingPod) -> None:
        self.engine.serving_left(pod.id)
        self._notice(Happening.SERVING_LEFT)

    def _bind_serving(self) -> None:
        if self.engine.serving and self.engine.bind_serving():
            self._notice(Happening.NODE_CHANGED)

    def _next_loss_s(self) -> float:
        assert self._setup.faults is not None
        return self.engine.now_s + self._chance.expovariate(self._setup.faults.node_losses_per_day / 86_400)

    def _lose_a_node(self) -> None:
        assert self._setup.faults is not None
        there = [node.id for node in self.engine.cluster.nodes if node.ready]
        if len(there) > 1:
            node_id = self._chance.choice(there)
            self._node_changed(NodeEvent(self.engine.now_s, NodeChange.LOST, node_id))
            back_s = self.engine.now_s + self._setup.faults.node_repair_s
            self._at(back_s, lambda: self._node_changed(NodeEvent(back_s, NodeChange.RETURNED, node_id)))
        self._at(self._next_loss_s(), self._lose_a_node)

    def _resync(self) -> None:
        assert self._setup.faults is not None
        self._pacer.notice(Happening.TIMER)
        if self.engine.jobs or self._next_arrival < len(self.arrivals):
            self._at(self.engine.now_s + self._setup.faults.resync_s, self._resync)

    # -- the cycle ------------------------------------------------------------------------------------------------

    def _cycle(self, now_s: float) -> None:
        setup, engine = self._setup, self.engine
        ticket = self._pacer.begin()
        began = perf_counter()
        try:
            decision = run_at_once(run_cycle(engine, setup.size, setup.place, self._journal, setup.settings))
            if decision.considered:
                self.considered += [Considered(now_s, move) for move in decision.considered]
        except _Crash:
            self._pacer.notice(Happening.STARTED_UP)
            ticket -= 1
        self.decision_s.append(perf_counter() - began)
        if engine.commit():
            self._sample()
        if setup.foretells_again:
            engine.foretell_again()
        if engine.serving:
            self._bind_serving()
        self._pacer.end(ticket, now_s)
        wake_s = engine.wake_s
        if wake_s is not None:
            wake_s = max(math.ceil(wake_s), now_s + 1) if setup.whole_seconds else max(wake_s, now_s + 1e-6)
        self._wake_s = wake_s
        if self._observer is not None:
            self._observer(engine.snapshot())

    def _sample(self) -> None:
        engine = self.engine
        self._changed_s = engine.now_s
        sample = Sample(
            engine.now_s, engine.gpus_used, engine.cluster.gpus, engine.running, len(engine.jobs) - engine.running
        )
        if self.samples and self.samples[-1].at_s == sample.at_s:
            self.samples[-1] = sample
        else:
            self.samples.append(sample)

    def _close_books(self) -> None:
        """Records of jobs that did not finish. Those that never started are told what any engine would tell now."""
        setup, engine = self._setup, self.engine
        if not engine.jobs:
            return
        view = engine.snapshot()
        decision = decide(view, setup.size, setup.place, setup.settings)
        reasons = Reasons(view, decision)
        for job in view.jobs:
            started = job.gpu_s or decision.layout.workers_of(job.id)  # or would have, had the simulation gone on
            refused = "" if started else f"never started: {reasons.of(job).sentence}"
            self.records.append(engine.record(job.id, None, refused=refused))


class _Faulty(SimulatedEngine):
    """A simulated engine whose scheduler may die between two steps."""

    fate: tuple[random.Random, float] = (random.Random(0), 0.0)  # where chance comes from, and how often it strikes

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        outcomes = await super().apply(actions)
        chance, share = self.fate
        if chance.random() < share:
            raise _Crash
        return outcomes


class _FaultySharing(_Faulty, SharingEngine):
    """The same where jobs compete for CPU."""


_ENGINES: dict[tuple[bool, bool], type[SimulatedEngine]] = {  # by: do jobs compete for CPU? does the scheduler die?
    (False, False): SimulatedEngine,
    (True, False): SharingEngine,
    (False, True): _Faulty,
    (True, True): _FaultySharing,
}


def simulate(
    setup: Simulation,
    *,
    journal: Journal | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> SimulationResult:
    """Run to the end. `observer` sees the world after every cycle; `on_progress` hears of jobs done and in total."""
    if setup.interval_s is not None and not setup.interval_s > 0:
        raise InvalidRequest(field="interval", value=setup.interval_s, expected="seconds, above 0")
    if not setup.nodes:
        raise InvalidRequest(field="nodes", value=0, expected="at least one node")
    run = _Run(setup, journal or NoJournal(), observer)
    run.go(on_progress)
    if len(run.records) != len(run.arrivals):
        raise InvariantBroken(f"{len(run.arrivals)} jobs came and {len(run.records)} are accounted for")
    run.records.sort(key=lambda record: (record.submitted_s, record.id))
    return SimulationResult(
        policy=setup.policy_name,
        trace=setup.trace_name,
        records=tuple(run.records),
        samples=tuple(run.samples),
        decision_s=run.decision_s,
        cycles=len(run.decision_s),
        considered=tuple(run.considered),
    )
