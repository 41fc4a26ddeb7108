"""All jobs and processes of the engine, in memory and in the store: what changed here is written there together.

Memory is a copy. `commit` makes everything that changed durable in one transaction, and only then may the world be
touched. Values that change with every report of a training program (`touched_softly`) wait for the next commit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sterna.engines.local.launch.warden.values import ProcessState
from sterna.engines.local.process.clock import Timeline
from sterna.engines.local.reconcile.effects_due import PRE_STOP
from sterna.engines.local.reconcile.gang import Gang, Process
from sterna.engines.local.reconcile.process_facts import Known
from sterna.engines.local.store.database import Store
from sterna.engines.local.store.rows import ChangeRow, EventRow, JobRow, WorkerRow
from sterna.lifecycle.speed import Mark
from sterna.model.conditions import ConditionType, Status, said, with_condition
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Disruption, Job, JobSpec
from sterna.model.learning import MODELS_MAX, Knowledge
from sterna.model.resources import Resources
from sterna.model.target import PolicyMemory
from sterna.model.workload import Workload
from sterna.protocol import Status as WorkerStatus
from sterna.protocol import WorkerPhase

_MODELS_HELD = 2 * MODELS_MAX  # then half of them go, which is seldom
_EXITED_KEPT = 64  # rows of ended processes that a job keeps; older ones are dropped


@dataclass(slots=True)
class LocalProcess:
    """One process in memory: its row, and what was last seen of it outside."""

    row: WorkerRow
    status: WorkerStatus | None = None
    status_stamp: int = 0  # of the file it was read from
    committed_s: float | None = None
    order_written: int = 0
    stop_told_s: float | None = None
    replaced_pid: int | None = None
    hooks_done: set[str] = field(default_factory=set)
    _known: Known = field(default=Known(), init=False)

    @property
    def state(self) -> ProcessState | None:
        """As far as its life is known. None: the warden has not heard of it, or has forgotten it."""
        return self._known.state

    @property
    def held(self) -> bool:
        """The warden was known to hold it: if it denies that later, the process is gone."""
        return self.row.live and (self.row.started_s is not None or (self.state is not None and self.state.alive))

    def told(self, state: ProcessState) -> None:
        """Facts from outside are noted by these three, in any order: what is older than what is known is dropped."""
        self._known = self._known.told(state)

    def denied(self) -> None:
        self._known = self._known.denied(self.row.uid)

    def forgot(self) -> None:
        self._known = self._known.forgot()

    def look(self, *, has_pre_stop: bool) -> Process:
        state = self.state
        return Process(
            row=self.row,
            known=state is not None,
            runs=state is not None and state.alive,
            ended=state is not None and not state.alive,
            pid=None if state is None else state.pid,
            status=self.status,
            committed_s=self.committed_s,
            hook_done=not has_pre_stop or PRE_STOP in self.hooks_done,
            order_written=self.order_written,
            stop_told_s=self.stop_told_s,
            replaced_pid=self.replaced_pid,
        )


@dataclass(slots=True)
class LocalJob:
    """One job in memory."""

    row: JobRow
    workload: Workload
    spec: JobSpec
    processes: dict[str, LocalProcess] = field(default_factory=dict)
    fence: int | None = None  # as last written; None: not looked at yet
    hooks_begun: set[tuple[str, str]] = field(default_factory=set)
    disruptions: tuple[Disruption, ...] = ()
    value: Job | None = None  # as the next snapshot shows it. None: to be worked out
    last_why: str = ""  # what it was last told about its waiting
    measured_from: Mark | None = None  # where the measurement of its speed that is under way began
    files: dict[str, str] = field(default_factory=dict)  # contract files as last written
    notes: set[str] = field(default_factory=set)  # what its owner was told about limits
    ends: int = 0  # of its processes, since the engine started: each may have let go of room
    told: tuple[int, bool] = (0, False)  # `ends`, and whether it has ended, as the core was last told

    @property
    def live(self) -> list[LocalProcess]:
        return [process for process in self.processes.values() if process.row.live]

    def look(self, now_s: float, *, closing: bool, warm_s: float) -> Gang:
        looks = tuple(
            process.look(has_pre_stop=bool(self.workload.template(process.row.role).program.pre_stop))
            for process in self.processes.values()
        )
        return Gang(job=self.row, workload=self.workload, processes=looks, now_s=now_s, closing=closing, warm_s=warm_s)


class Book:
    def __init__(self, store: Store, timeline: Timeline) -> None:
        self.store = store
        self.timeline = timeline
        self.jobs: dict[JobId, LocalJob] = {}  # in order of arrival
        self.busy: dict[JobId, LocalJob] = {}  # those that hold anything or have processes: few among thousands
        self.by_process: dict[str, LocalJob] = {}
        self.changes: dict[int, ChangeRow] = {change.id: change for change in store.open_changes()}
        self.accelerators: dict[NodeId, str] = {}  # by node: what was learned is kept apart by them
        self.judge_settings: Mapping[str, str] = {}  # how evaluations are judged, unless a job says otherwise
        self.used: dict[str, Resources] = {}  # by worker: what was last measured of it
        self.knowledge: Knowledge = store.knowledge()
        self.memory: PolicyMemory = store.memory()
        self.on_change: Callable[[JobId], None] = lambda _: None  # its value must be worked out again
        self.on_growth: Callable[[], None] = lambda: None  # a job came into another category
        self.on_event: Callable[[], None] = lambda: None  # something was written that people may wait for
        self._last_event = self.committed_event = store.last_event()  # the latter is what others may read
        self._last_change = store.last_change()
        self._jobs: dict[str, JobRow] = {}  # what the next commit writes
        self._workers: dict[str, WorkerRow] = {}
        self._changes: dict[int, ChangeRow] = {}
        self._events: list[EventRow] = []
        self._gone_jobs: list[str] = []
        self._gone_workers: list[str] = []
        self._learned: set[tuple[str, str]] = set()
        self._unlearned: list[tuple[str, str]] = []
        self._memory_changed = False
        self._soft: set[JobId] = set()

    def has(self, job: LocalJob) -> bool:
        """Is it there, and not another one of its name?"""
        return self.jobs.get(job.row.id) is job

    def held(self) -> frozenset[str]:
        """The processes that the warden is known to hold."""
        busy = self.busy.values()
        return frozenset(process.row.uid for job in busy for process in job.processes.values() if process.held)

    # -- what changes -------------------------------------------------------------------------------------------------

    def add(self, job: LocalJob) -> None:
        self.jobs[job.row.id] = job
        for uid in job.processes:
            self.by_process[uid] = job
        self._note(job)

    def submitted(self, job: LocalJob) -> None:
        self.add(job)
        self._jobs[job.row.uid] = job.row
        self.on_change(job.row.id)

    def withdraw(self, job: LocalJob) -> None:
        """A submission that could not be committed: it never was."""
        self.jobs.pop(job.row.id, None)
        self.busy.pop(job.row.id, None)
        self._jobs.pop(job.row.uid, None)
        self._events = [event for event in self._events if event.job_id != job.row.id]
        self.on_change(job.row.id)

    def set_job(self, job: LocalJob, **values: Any) -> None:
        """Change a job's row; written with the next commit."""
        job.row = replace(job.row, **values)
        self._jobs[job.row.uid] = job.row
        self._soft.discard(job.row.id)
        self._note(job)

    def touch_softly(self, job: LocalJob, **values: Any) -> None:
        """Likewise, but not worth a commit of its own."""
        job.row = replace(job.row, **values)
        if job.row.uid in self._jobs:
            self._jobs[job.row.uid] = job.row
        else:
            self._soft.add(job.row.id)
        self.on_change(job.row.id)

    def set_worker(self, job: LocalJob, row: WorkerRow) -> None:
        process = job.processes.get(row.uid)
        if process is None:
            job.processes[row.uid] = LocalProcess(row)
            self.by_process[row.uid] = job
        else:
            job.ends += process.row.live and not row.live
            process.row = row
        self._workers[row.uid] = row
        self._note(job)

    def drop_job(self, job: LocalJob) -> None:
        """With its workers: nothing of it is left but its events and changes."""
        del self.jobs[job.row.id]
        self.busy.pop(job.row.id, None)
        for uid in job.processes:
            self.by_process.pop(uid, None)
            self._workers.pop(uid, None)
        self._jobs.pop(job.row.uid, None)
        self._soft.discard(job.row.id)
        self._gone_jobs.append(job.row.uid)
        if not job.spec.category:
            self.unlearn(own_category(job))
        self.on_change(job.row.id)

    def prune(self, job: LocalJob) -> None:
        """Forget the oldest ended processes of a job that has had very many."""
        ended = [process.row for process in job.processes.values() if not process.row.live and process.state is None]
        for row in ended[: max(0, len(ended) - _EXITED_KEPT)]:
            if row.incarnation < job.row.incarnation:
                del job.processes[row.uid]
                self.by_process.pop(row.uid, None)
                self._workers.pop(row.uid, None)
                self._gone_workers.append(row.uid)

    def new_change(self, job: LocalJob, **values: Any) -> ChangeRow:
        self._last_change += 1
        change = ChangeRow(
            id=self._last_change,
            job_uid=job.row.uid,
            job_id=job.row.id,
            requested_s=self.timeline.now(),
            from_incarnation=job.row.incarnation,
            **values,
        )
        self.set_change(change)
        return change

    def set_change(self, change: ChangeRow) -> None:
        self._changes[change.id] = change
        if change.open:
            self.changes[change.id] = change
        else:
            self.changes.pop(change.id, None)

    def event(
        self,
        reason: str,
        message: str,
        *,
        job: JobId | None = None,
        node: NodeId | None = None,
        warning: bool = False,
        data: dict[str, Any] | None = None,
    ) -> None:
        self._last_event += 1
        self._events.append(
            EventRow(
                id=self._last_event,
                at_s=self.timeline.now(),
                job_id=job,
                node_id=node,
                warning=warning,
                reason=reason,
                message=message,
                data=data or {},
            )
        )

    def unwritten_events(self, job_id: JobId | None, *, after: int) -> list[EventRow]:
        """Those that no commit has taken yet: with a disk that cannot be written, the only ones that tell of it."""
        return [event for event in self._events if event.id > after and job_id in (None, event.job_id)]

    def condition(self, job: LocalJob, kind: ConditionType, *, true: bool, reason: str, message: str) -> None:
        status = Status.TRUE if true else Status.FALSE
        row = job.row
        news = said(kind, status, reason=reason, message=message, now_s=self.timeline.now(), generation=row.generation)
        conditions = with_condition(row.conditions, news)
        if conditions != row.conditions:
            self.set_job(job, conditions=conditions)

    def remember(self, memory: PolicyMemory) -> None:
        if memory != self.memory:
            self.memory = memory
            self._memory_changed = True

    def learn(self, knowledge: Knowledge, key: tuple[str, str]) -> None:
        self.knowledge = knowledge
        self._learned.add(key)
        if len(knowledge.models) > _MODELS_HELD:
            self._know_only(knowledge.within(MODELS_MAX))

    def unlearn(self, category: str) -> None:
        models = {key: model for key, model in self.knowledge.models.items() if key[0] != category}
        if len(models) != len(self.knowledge.models):
            self._know_only(Knowledge(models))

    def _know_only(self, knowledge: Knowledge) -> None:
        self._unlearned += self.knowledge.models.keys() - knowledge.models.keys()
        self.knowledge = knowledge

    def _note(self, job: LocalJob) -> None:
        if job.row.assigned or job.live:
            self.busy[job.row.id] = job
        else:
            self.busy.pop(job.row.id, None)
        self.on_change(job.row.id)

    # -- making it durable --------------------------------------------------------------------------------------------

    def commit(self, what: str, *, soft: bool = False) -> None:
        """Write everything that changed. After an error nothing is lost: the next commit writes it."""
        if soft or self._is_dirty:
            for job_id in self._soft:
                if (job := self.jobs.get(job_id)) is not None:
                    self._jobs[job.row.uid] = job.row
            self._soft.clear()
        if not self._is_dirty:
            return
        with self.store.write(what=what) as write:
            for uid in self._gone_jobs:
                write.delete_job(uid)
            for job_row in self._jobs.values():
                write.job(job_row)
            for worker in self._workers.values():
                write.worker(worker)
            write.delete_workers(self._gone_workers)
            for change in self._changes.values():
                write.change(change)
            for event in self._events:
                write.event(event)
            for key in self._unlearned:  # first: some may have been learned anew since
                write.forget_learned(*key)
            write.learned(self.knowledge, sorted(self._learned))
            if self._memory_changed:
                write.memory(self.memory)
            write.latest(self.timeline.now())
        told = bool(self._events or self._jobs or self._changes)
        self.committed_event = self._last_event
        self._clear()
        if told:
            self.on_event()

    @property
    def _is_dirty(self) -> bool:
        parts: Iterable[Any] = (self._jobs, self._workers, self._changes, self._events, self._gone_jobs)
        return any(parts) or bool(self._gone_workers or self._learned or self._unlearned or self._memory_changed)

    def _clear(self) -> None:
        self._jobs.clear()
        self._workers.clear()
        self._changes.clear()
        self._events.clear()
        self._gone_jobs.clear()
        self._gone_workers.clear()
        self._learned.clear()
        self._unlearned.clear()
        self._memory_changed = False


def own_category(job: LocalJob) -> str:
    """The category under which a job that shares with no other job learns about itself."""
    return f"job/{job.row.uid}"


def committed_now(process: LocalProcess) -> bool:
    """Has it obeyed the order to stop, so that its state is safe?"""
    status, row = process.status, process.row
    return (
        status is not None
        and row.notice_s is not None
        and row.order_seq > 0
        and status.ack >= row.order_seq
        and status.phase is WorkerPhase.COMMITTED
    )
