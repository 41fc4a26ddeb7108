"""One job and its processes as one look sees them: what is intended, what runs, what was heard. Values only."""

from dataclasses import dataclass
from functools import cached_property

from sterna.engines.local.store.rows import ExitKind, JobRow, WorkerRow, WorkerState
from sterna.lifecycle.gang_roles import carriers
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Contract, RestartPolicy, Workload
from sterna.protocol import Order, Status, WorkerPhase

WARM_S = 60.0  # how long an old gang trains on while the new one imports, unless set otherwise
LINGER_S = 1.0  # how long a worker whose state is safe may take to end by itself
REGROUP_S = 90.0  # how long members may take to meet again before they are let go as they are
WIND_DOWN_S = 2.0  # how long the others of a job that succeeded may take to end by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process: its row, and what the warden and its mailbox say of it right now."""

    row: WorkerRow
    known: bool = False  # the warden has heard of it
    runs: bool = False  # ... and holds it alive
    ended: bool = False  # ... or has its end, which the row does not have yet
    pid: int | None = None
    status: Status | None = None  # None: its program never attached
    committed_s: float | None = None  # since when its state has been safe, after it was told to stop
    hook_done: bool = True  # False: its preStop hook has not ended yet
    order_written: int = 0  # seq of the orders in its mailbox
    replaced_pid: int | None = None  # of the training process that was ended so that its agent starts another
    stop_told_s: float | None = None  # the deadline that the warden was last told. None: not told to stop it

    @property
    def uid(self) -> str:
        return self.row.uid

    @property
    def attached(self) -> bool:
        return self.status is not None

    @property
    def ready(self) -> bool:
        """Everything before the first step is behind it, be it that it holds or that it got further."""
        ahead = (WorkerPhase.ATTACHED,)
        return self.runs and self.status is not None and self.status.phase not in ahead

    @property
    def stands(self) -> bool:
        """Told to hold, it does: at a boundary with its state saved, or before its first step."""
        status = self.status
        if status is None or self.row.order != Order.HOLD.value or status.phase is WorkerPhase.READY:
            return status is not None and status.phase is WorkerPhase.READY
        return status.phase is WorkerPhase.COMMITTED and status.ack >= self.row.order_seq

    @property
    def safe(self) -> bool:
        """It is gone, or what it trained is in a checkpoint and it trains no more."""
        return not self.row.live or self.committed_s is not None


@dataclass(frozen=True, kw_only=True)
class Gang:
    job: JobRow
    workload: Workload
    processes: tuple[Process, ...]
    now_s: float
    closing: bool = False  # the engine is about to stop: everything commits and goes
    warm_s: float = WARM_S

    @cached_property
    def live(self) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.row.live)

    @cached_property
    def wanted(self) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.row.wanted)

    @cached_property
    def slots(self) -> tuple[Worker, ...]:
        """What the job is to hold now."""
        job = self.job
        nothing = job.finished or job.deleting or job.suspended or self.closing
        return () if nothing else job.assigned

    @cached_property
    def done(self) -> tuple[Process, ...]:
        """Those of the incarnation that trains which ended well and are not to be started again."""
        return tuple(
            process
            for process in self.processes
            if process.row.exit is not None
            and process.row.exit.kind is ExitKind.COMPLETED
            and process.row.incarnation == self.job.incarnation
            and self.workload.template(process.row.role).restart_policy is not RestartPolicy.ALWAYS
        )

    @property
    def restarts(self) -> bool:
        """Does no member survive a change?"""
        return self.workload.contract is Contract.RESTART

    def of(self, incarnation: int) -> tuple[Process, ...]:
        """The wanted ones of one incarnation."""
        return tuple(process for process in self.wanted if process.row.incarnation == incarnation)

    def older_than(self, incarnation: int) -> tuple[Process, ...]:
        return tuple(process for process in self.live if process.row.incarnation < incarnation)

    def grace_s(self, role: Role) -> float:
        return self.workload.template(role).program.grace_s

    def members(self) -> tuple[Worker, ...]:
        """The members of the incarnation that trains, whatever has been decided about the next one."""
        if self.job.assigned and not self.restarts:
            return self.job.assigned
        trained = self.job.incarnation
        return tuple(process.row.place for process in self.processes if process.row.incarnation == trained)


def carries_the_job(workload: Workload, row: WorkerRow) -> bool:
    """Can the others not train on without this one?"""
    if workload.contract is Contract.TORCHRUN:
        return row.rank == 0  # it holds the store that all meet at, whatever its number among those of today
    return bool(carriers(workload, [row.place]))


def may_be_launched(gang: Gang, process: Process) -> bool:
    """Its turn has come: it is to wait beside others, or no other process of its seat is left."""
    row = process.row
    if row.state is not WorkerState.PLANNED or process.known:
        return False
    if row.standby:
        return True
    same_seat = (row.role, row.ordinal)
    return row.incarnation == gang.job.incarnation and not any(
        (other.row.role, other.row.ordinal) == same_seat and other.row.incarnation <= row.incarnation
        for other in gang.live
        if other.uid != row.uid
    )
