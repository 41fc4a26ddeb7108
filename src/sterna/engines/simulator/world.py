"""The simulated cluster: what every job holds, how far it has come, and what it cost. An engine on a virtual clock.

Actions are noted while a cycle runs and made true by `commit`, so that a job that is shrunk and grown in one plan is
charged once. Jobs nothing happens to are not touched: their `Job` values grow with the clock by themselves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.results import JobRecord, Segment
from sterna.engines.simulator.training import SimulatedJob, Training
from sterna.lifecycle import counters
from sterna.lifecycle.lost_seats import who_goes_on
from sterna.lifecycle.node_trust import NodePast, NodeSign, Trust, TrustRules, seen, verdict
from sterna.lifecycle.retry import failures_now, loss_pause_s
from sterna.model.columns import Columns, KeptColumns
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvariantBroken
from sterna.model.growth import Growth
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec, ProgressPoint, Worker
from sterna.model.layout import Layout
from sterna.model.learning import Knowledge
from sterna.model.nodes import Cluster, Guest, GuestKind, Node
from sterna.model.phases import Phase
from sterna.model.plan import Action, Decision, Held, Outcome, Shrink
from sterna.model.resources import NOTHING, Resources
from sterna.model.serving_room import room_for_serving
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory

_TRUST = TrustRules()
_NEVER_LOST = NodePast(NodeSign(ready=True), 0.0)
_LEARNED_S = (1e-6, 1e9)  # seconds for a unit; what lies outside is a rounding, not a measurement


class LiveJob:
    """One job while it is in the simulated cluster: its true training, and what is being counted about it."""

    __slots__ = (
        "first_workers",
        "losses",
        "lost_gpu_s",
        "lost_s",
        "migrations",
        "preemptions",
        "resizes",
        "restart_s",
        "retry_s",
        "segment_from_s",
        "segments",
        "training",
        "version",
    )

    def __init__(self, training: Training, restart_s: float | None) -> None:
        self.training = training
        self.restart_s = restart_s
        self.segments: list[Segment] = []
        self.segment_from_s = 0.0
        self.first_workers: tuple[Worker, ...] = ()
        self.resizes = self.migrations = self.preemptions = 0
        self.lost_gpu_s = 0.0
        self.losses = 0  # of nodes, in a row, that it lost everything with
        self.lost_s: float | None = None  # when the latest of them was
        self.retry_s = 0.0  # it trains nothing before, whatever it holds
        self.version = 0  # of its workers: an announced finish of an older version is void


class SimulatedEngine:
    """Implements `Engine`. Time is set from outside; finishes are announced through `on_finish_known`."""

    def __init__(
        self,
        cluster: Cluster,
        costs: Costs,
        *,
        on_finish_known: Callable[[float, JobId, int], None],
        on_leaving: Callable[[JobId], None] | None = None,
        checkpoint_every_s: float = 0.0,
        keep_segments: bool = True,
        knowledge: Knowledge | None = None,
        seed: int = 0,
    ) -> None:
        self.now_s = 0.0
        self.cluster = cluster
        self.memory = PolicyMemory()
        self.wake_s: float | None = None
        self.jobs: dict[JobId, Job] = {}  # in order of arrival, as the snapshot wants them
        self.live: dict[JobId, LiveJob] = {}
        self._blank: Job | None = None  # that new jobs are made from, which is faster than making them from nothing
        self._holding: dict[JobId, Job] = {}  # those that take room
        self._held = [0] * len(NOTHING)  # what all workers take, each counted as an elastic one
        self._leaving: dict[JobId, Job] = {}  # those of them with workers that were told to go
        self._seats_s: dict[JobId, float] = {}  # of jobs that hold nothing and come back: when their run began
        self._columns = KeptColumns()
        self._accelerators: frozenset[str | None] = frozenset()  # that any job so far asked for
        self._rules = False  # had any job so far rules about the pods beside its own?
        self._minimums: set[Resources] = set()  # that any job so far needed to start
        self._largest_minimum = self._smallest_minimum = NOTHING  # of those, in each resource
        self.unpredictable: dict[JobId, None] = {}  # running jobs whose finish is found only by advancing them
        self.gpus_used = 0.0
        self.running = 0
        self.serving: list[ServingPod] = []
        self._pasts: dict[NodeId, NodePast] = {}  # of nodes that were lost or came back
        self._revision = 0
        self._layout: Layout | None = None  # of the latest decision. None: there was none yet
        self._wanted: dict[JobId, tuple[Worker, ...]] = {}
        self._costs = costs
        self._announce = on_finish_known
        self._on_leaving = on_leaving  # None: workers are gone the moment they are told to go
        self._checkpoint_every_s = checkpoint_every_s
        self._keep_segments = keep_segments
        self._seed = seed  # of what policies and placements draw by lot
        self._knowledge = knowledge  # None: policies are told the truth

    # -- Engine ---------------------------------------------------------------------------------------------------

    async def observe(self) -> Snapshot:
        return self.snapshot()

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        return [self._note(action) for action in actions]

    async def remember(self, decision: Decision) -> None:
        self.memory = decision.memory
        self.wake_s = decision.wake_s
        self._layout = decision.layout
        if self._seats_s:  # a decision that has nothing for such a job is a preemption, and ends its run
            placed = decision.layout.workers_of
            self._seats_s = {job_id: began_s for job_id, began_s in self._seats_s.items() if placed(job_id)}

    # -- what the simulation does to the world ------------------------------------------------------------------------

    def usage(self) -> Mapping[NodeId, Resources]:
        """What is measured on nodes; nothing, where jobs do not get into each other's way."""
        return {}

    def snapshot(self) -> Snapshot:
        self._revision += 1
        pods = tuple([Guest(pod.id, pod.request, GuestKind.SERVING) for pod in self.serving]) if self.serving else ()
        jobs = tuple(self.jobs.values())
        return Snapshot.as_known(
            revision=self._revision,
            now_s=self.now_s,
            cluster=self.cluster,
            jobs=jobs,
            serving=pods,
            memory=self.memory,
            reserved=room_for_serving(self.cluster, pods) if pods else 0,
            seed=self._seed,
            usage=self.usage(),
            by_id=self.jobs.copy(),
            holding=tuple(self._holding.values()),
            holders=frozenset(self._holding),
            held=Resources._make(self._held),
            leaving=tuple(self._leaving.values()) if self._leaving else (),
            wanting=jobs,  # no job is suspended here
            columns=Columns(jobs, self._columns),
            accelerators_named=self._accelerators,
            jobs_have_rules=self._rules,
            largest_minimum=self._largest_minimum,
            smallest_minimum=self._smallest_minimum,
        )

    def arrive(self, simulated: SimulatedJob) -> None:
        training = simulated.training
        spec = simulated.spec
        if self._blank is None:
            self._blank = Job(spec=spec)
        job = self._blank.but(
            spec=spec,
            as_of_s=self.now_s,
            waiting_since_s=spec.submitted_s,
            units_left=training.units_left,
            curve=self._told(spec, training),
            restart_s=simulated.restart_s if simulated.restart_s is not None else self._costs.rescale_s,
        )
        self.jobs[spec.id] = job
        self._columns.add(job)
        if spec.accelerator not in self._accelerators:
            self._accelerators |= {spec.accelerator}
        self._rules = self._rules or spec.has_rules
        if spec.min_request not in self._minimums:
            self._minimums.add(spec.min_request)
            self._largest_minimum = Resources(*map(max, zip(*self._minimums, strict=True)))
            self._smallest_minimum = Resources(*map(min, zip(*self._minimums, strict=True)))
        self.live[spec.id] = LiveJob(training, simulated.restart_s)

    def commit(self) -> bool:
        """Make the noted actions true; says whether anything changed."""
        wanted, self._wanted = self._wanted, {}
        for job_id, workers in wanted.items():
            self._hold(job_id, workers)
        return bool(wanted)

    def foretell_again(self) -> None:
        """Bring every running job to now and announce its finish anew, rounding as simulators do that keep no more
        than the work left."""
        for job_id, job in tuple(self.jobs.items()):
            if job.workers and job.as_of_s < self.now_s:
                self._settle(job_id)
                self._foretell_anew(job_id)

    def advance_unpredictable(self) -> list[tuple[JobId, float]]:
        """Let jobs whose finish cannot be foretold train up to now; returns those that finished, and when."""
        finished: list[tuple[JobId, float]] = []
        for job_id in self.unpredictable:
            done_s = self._settle(job_id)
            if done_s is not None:
                finished.append((job_id, done_s))
        return finished

    def finish(self, job_id: JobId, finished_s: float) -> JobRecord:
        """The job is done: it leaves the cluster, and what is known of it becomes a record."""
        job, live = self.jobs[job_id], self.live[job_id]
        self._close_segment(job, live)
        self.gpus_used -= job.service_rate
        self._take_room(job.spec, -len(job.workers))
        self.running -= 1
        if self._on_leaving is not None:
            self._on_leaving(job_id)
        if self.now_s > job.as_of_s:
            self.jobs[job_id] = job.but(**self._progress(job, live)[0])
        return self.record(job_id, finished_s)

    def record(self, job_id: JobId, finished_s: float | None, *, refused: str = "") -> JobRecord:
        """What is known of a job that is done, or will never be; from now on the cluster does not have it."""
        job, live = self.jobs.pop(job_id), self.live.pop(job_id)
        self._columns.remove(job_id)
        self._holding.pop(job_id, None)
        self._leaving.pop(job_id, None)
        self.unpredictable.pop(job_id, None)
        spec = job.spec
        return JobRecord(
            id=spec.id,
            category=spec.category,
            submitted_s=spec.submitted_s,
            first_started_s=job.first_started_s,
            finished_s=finished_s,
            gpu_s=job.gpu_s,
            ran_s=job.ran_s,
            lost_s=live.lost_gpu_s,
            resizes=live.resizes,
            migrations=live.migrations,
            preemptions=live.preemptions,
            segments=tuple(live.segments),
            refused=refused,
            first_workers=live.first_workers,
        )

    def judged(self, job_id: JobId, growth: Growth) -> None:
        """Keep how the job's evaluation value grows, as it was judged."""
        self._keep(self.jobs[job_id].but(growth=growth))

    def settle_running(self) -> None:
        """Bring the counters of all jobs that hold workers to now."""
        for job_id in tuple(self._holding):
            self._settle(job_id)

    def released(self, job_id: JobId) -> None:
        """Workers that were told to go are gone."""
        job = self.jobs.get(job_id)
        if job is not None and job.leaving:
            self._keep(job.but(leaving=()))

    def change_node(self, event: NodeEvent) -> float | None:
        """When to ask `judge_nodes` for what follows from it by itself. None: nothing does."""
        nodes = dict(self.cluster.by_id)
        match event.change:
            case NodeChange.ADDED:
                if event.node is None:
                    raise InvariantBroken(f"node {event.node_id} was added without saying what it is")
                nodes[event.node_id] = event.node
                if event.node_id in self._pasts:
                    self._see(event.node_id, NodeSign(ready=event.node.ready))
            case NodeChange.LOST:
                self._see(event.node_id, NodeSign(ready=False, leaves=True))
            case NodeChange.SILENT:
                self._see(event.node_id, NodeSign(ready=False))
            case NodeChange.RETURNED:
                self._see(event.node_id, NodeSign(ready=True))
            case NodeChange.DRAINED:
                nodes[event.node_id] = replace(nodes[event.node_id], cordoned=True)
            case NodeChange.UNCORDONED:
                nodes[event.node_id] = replace(nodes[event.node_id], cordoned=False)
        self.cluster = Cluster.of(nodes.values())
        return self.judge_nodes()

    def judge_nodes(self) -> float | None:
        """How far nodes are trusted that were silent, lost or back, now; and when that may be another by itself."""
        verdicts = {node_id: verdict(past, self.now_s, _TRUST) for node_id, past in self._pasts.items()}
        nodes = dict(self.cluster.by_id)
        for node_id, found in verdicts.items():
            node, is_lost = nodes[node_id], found.trust is Trust.LOST
            if is_lost and node.ready:
                self._lose_workers_on(node_id)
                node = replace(node, guests=())
            nodes[node_id] = replace(node, ready=not is_lost, doubt=found.doubt)
        if verdicts:
            self.cluster = Cluster.of(nodes.values())
        return min((found.until_s for found in verdicts.values() if found.until_s is not None), default=None)

    def bind_serving(self) -> list[ServingPod]:
        """Give waiting serving pods the first node with room, oldest first; returns those that got one."""
        bound: list[ServingPod] = []
        for pod in tuple(self.serving):
            node = next((node for node in self.cluster.nodes if self._has_room(node, pod.request)), None)
            if node is not None:
                guests = (*node.guests, Guest(pod.id, pod.request, GuestKind.SERVING))
                nodes = {**self.cluster.by_id, node.id: replace(node, guests=guests)}
                self.cluster = Cluster.of(nodes.values())
                self.serving.remove(pod)
                bound.append(pod)
        return bound

    def serving_left(self, pod_id: str) -> None:
        self.serving = [pod for pod in self.serving if pod.id != pod_id]
        nodes = [
            replace(node, guests=tuple(guest for guest in node.guests if guest.id != pod_id))
            for node in self.cluster.nodes
        ]
        self.cluster = Cluster.of(nodes)

    # -- helpers --------------------------------------------------------------------------------------------------

    def _see(self, node_id: NodeId, sign: NodeSign) -> None:
        self._pasts[node_id] = seen(self._pasts.get(node_id, _NEVER_LOST), sign, self.now_s, _TRUST)

    def _note(self, action: Action) -> Outcome:
        job = self.jobs.get(action.job_id)
        if job is None:
            return Outcome(action, Held.STALE, "the job is gone")
        self._wanted[action.job_id] = action.to
        if self._on_leaving is not None and isinstance(action, Shrink):
            return Outcome(action, Held.BEGUN)
        return Outcome(action, Held.DONE)

    def _keep(self, job: Job) -> Job:
        job_id = job.spec.id
        self.jobs[job_id] = job
        self._columns.replace(job)
        if job.workers or job.leaving:
            self._holding[job_id] = job
        else:
            self._holding.pop(job_id, None)
        if job.leaving:
            self._leaving[job_id] = job
        elif self._leaving:
            self._leaving.pop(job_id, None)
        return job

    def _take_room(self, spec: JobSpec, more: int) -> None:
        if more:
            self._held = [had + more * amount for had, amount in zip(self._held, spec.request, strict=True)]

    def _settle(self, job_id: JobId) -> float | None:
        """Bring the job's counters to now; the moment it finished, if it did."""
        job = self.jobs[job_id]
        if not job.size or self.now_s <= job.as_of_s:
            return None
        changes, done_s = self._progress(job, self.live[job_id])
        self._keep(job.but(**changes))
        return done_s

    def _progress(self, job: Job, live: LiveJob) -> tuple[dict[str, object], float | None]:
        """What training from the job's last look up to now changed about it; the moment it finished, if it did."""
        now_s, since_s, began_s = self.now_s, job.since_s, job.as_of_s
        training = live.training
        units_before = training.units_left if self._knowledge is not None else 0.0
        done_s = training.advance(job.workers, since_s, now_s) if now_s > since_s else None
        until_s = now_s if done_s is None else done_s
        if job.resumes_s > began_s:
            live.lost_gpu_s += job.service_rate * (min(until_s, job.resumes_s) - began_s)
        if self._knowledge is not None:
            self._learn(job, units_before - training.units_left, until_s - since_s)
        changes = counters.served(job, job.service_rate, until_s - began_s, now_s)
        changes["units_left"] = training.units_left
        changes["curve"] = self._told(job.spec, training)
        return changes, done_s

    def _hold(self, job_id: JobId, workers: tuple[Worker, ...]) -> None:
        """From now on the job holds exactly these."""
        job = self.jobs[job_id]
        held = job.workers
        if workers == held:
            return
        live, now_s = self.live[job_id], self.now_s
        self.gpus_used -= job.service_rate
        self._take_room(job.spec, len(workers) - len(held))
        changes: dict[str, object] = {"as_of_s": now_s}
        if job.size and now_s > job.as_of_s:
            changes = self._progress(job, live)[0]
        changes["workers"] = workers
        if workers:
            pause_s = self._began(job, live, workers, changes)
            changes["resumes_s"] = max(now_s, live.retry_s) + (pause_s if live.restart_s is None else live.restart_s)
        else:
            self._stopped(job, live, changes)
        if self._on_leaving is not None and (gone := tuple(worker for worker in held if worker not in workers)):
            changes["leaving"] = job.leaving + gone
            self._on_leaving(job_id)
        self._close_segment(job, live)
        job = self._keep(job.but(**changes))
        self.gpus_used += job.service_rate
        live.version += 1
        self._foretell(job, live)

    def _began(self, job: Job, live: LiveJob, workers: tuple[Worker, ...], changes: dict[str, object]) -> float:
        """A start, a resize or a migration: what it changes about the job, and the pause that it costs."""
        if job.workers:
            if len(workers) != len(job.workers):
                live.resizes += 1
                return self._costs.rescale_s
            live.migrations += 1
            return self._costs.migrate_s
        if not live.first_workers:
            live.first_workers = workers
        changes["phase"] = Phase.RUNNING
        changes.update(counters.started(job, self.now_s, seat_s=self._seats_s.pop(job.spec.id, None)))
        self.running += 1
        return self._costs.start_s

    def _stopped(self, job: Job, live: LiveJob, changes: dict[str, object]) -> None:
        """A job whose latest decision has a place for it lets go only to come back, so its run goes on: workers have to
        leave first, or a node broke, which must not cost it its turn."""
        if job.started_s is not None and self._layout is not None and self._layout.workers_of(job.spec.id):
            self._seats_s[job.spec.id] = job.started_s
        changes["phase"] = Phase.WAITING
        changes.update(counters.stopped(job, self.now_s))
        live.preemptions += 1
        self.running -= 1

    def _told(self, spec: JobSpec, training: Training) -> SpeedupCurve:
        """The curve that policies see: the true one, or what was learned from jobs like this."""
        return training.curve if self._knowledge is None else self._knowledge.curve_for(spec)

    def _learn(self, job: Job, units: float, trained_s: float) -> None:
        """What the stretch that just ended taught about jobs of this category."""
        if self._knowledge is not None and units > 0 and _LEARNED_S[0] <= trained_s / units <= _LEARNED_S[1]:
            point = ProgressPoint(self.now_s, units, job.size, trained_s / units)
            node = self.cluster.by_id.get(job.workers[0].node)
            self._knowledge = self._knowledge.learn(job.spec, node.accelerator if node else "", [point])

    def _foretell_anew(self, job_id: JobId) -> None:
        """Of a job that was brought to now: what was announced before is void."""
        job, live = self.jobs[job_id], self.live[job_id]
        live.version += 1
        self._foretell(job if job.resumes_s > self.now_s else job.but(resumes_s=self.now_s), live)

    def _foretell(self, job: Job, live: LiveJob) -> None:
        self.unpredictable.pop(job.spec.id, None)
        if job.workers:
            finish_s = live.training.finish_s(job.workers, job.resumes_s)
            if finish_s is None:
                self.unpredictable[job.spec.id] = None
            else:
                self._announce(finish_s, job.spec.id, live.version)

    def _close_segment(self, job: Job, live: LiveJob) -> None:
        if self._keep_segments and job.workers and self.now_s > live.segment_from_s:
            nodes = tuple(sorted({worker[2] for worker in job.workers}))
            live.segments.append(Segment(live.segment_from_s, self.now_s, job.size, nodes))
        live.segment_from_s = self.now_s

    def _lose_workers_on(self, node_id: NodeId) -> None:
        for job_id, job in tuple(self.jobs.items()):
            if all(worker.node != node_id for worker in job.workers + job.leaving):
                continue
            self._settle(job_id)
            job, live = self.jobs[job_id], self.live[job_id]
            started_s = self.now_s if job.started_s is None else job.started_s
            trained_s = max(0.0, self.now_s - max(job.resumes_s, started_s))
            lost_s = math.fmod(trained_s, self._checkpoint_every_s) if self._checkpoint_every_s else 0.0
            live.training.rewind(job.workers, lost_s)
            live.lost_gpu_s += lost_s * job.service_rate
            lost = [worker for worker in job.workers if worker.node == node_id]
            leaving = tuple(worker for worker in job.leaving if worker.node != node_id)
            self._keep(job.but(units_left=live.training.units_left, leaving=leaving))
            if lost:
                kept = who_goes_on(job.spec, job.workers, lost)
                if not kept:
                    live.losses, live.lost_s = failures_now(live.losses, live.lost_s, self.now_s), self.now_s
                    live.retry_s = self.now_s + loss_pause_s(live.losses)
                self._hold(job_id, kept)
                still = self.jobs[job_id]
                gone = tuple(worker for worker in still.leaving if worker.node != node_id)
                self._keep(still.but(leaving=gone))

    def _has_room(self, node: Node, request: Resources) -> bool:
        used = NOTHING
        for job in self.jobs.values():
            for worker in job.workers + job.leaving:
                if worker.node == node.id:
                    used = used.plus(job.spec.request_of(worker.role))
        room = node.free_of_guests.minus(used)
        return node.schedulable and all(have >= take for have, take in zip(room[:3], request[:3], strict=True))
