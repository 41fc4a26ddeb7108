"""What the store keeps: jobs, workers, changes, events, nodes, as values. Reading and writing them is `database.py`.

Moments are those of the timeline (`clock.py`). A row says what is intended and what is known; what is left to do about
it follows from comparing the two (`row_moves.py`, `effects_due.py`), so a crash between any two lines costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sterna.lifecycle.changes import ChangeKind
from sterna.model.conditions import Conditions
from sterna.model.growth import Growth
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import ProgressPoint, Role, Worker
from sterna.model.phases import FINISHED, Phase

Record = Mapping[str, Any]  # what JSON can say


class WorkerState(StrEnum):
    PLANNED = "planned"  # decided; the warden may or may not have been told
    RUNNING = "running"  # the warden said so
    LEAVING = "leaving"  # told to go, or about to be
    EXITED = "exited"


class ExitKind(StrEnum):
    """How a process ended, as far as it matters for what happens next."""

    COMPLETED = "completed"  # by itself, with code 0
    STOPPED = "stopped"  # it was told to
    FAILED = "failed"
    COULD_NOT_START = "could not start"  # no such command, no such directory: trying again would not help
    LOST = "lost"  # with its node or its warden: no failure
    NEVER_STARTED = "never started"


class Exit(NamedTuple):
    kind: ExitKind
    at_s: float
    code: int | None = None  # None: by a signal, or unknown
    signal: int | None = None
    oom: bool = False
    message: str = ""


class Heard(NamedTuple):
    """What is worth keeping of a worker's last status, for when its mailbox is gone or silent."""

    phase: str
    step: int
    restored_step: int | None = None
    first_step_mono_s: float | None = None
    last_step_mono_s: float | None = None
    save_s: float | None = None
    load_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One process, from the moment it was decided until its job is deleted."""

    uid: str
    job_uid: str
    role: Role
    ordinal: int
    rank: int
    world_size: int
    node: NodeId
    devices: tuple[DeviceId, ...]
    incarnation: int
    standby: bool  # started to wait for its turn
    state: WorkerState
    created_s: float
    started_s: float | None = None  # None: the warden has not said so yet
    pid: int | None = None
    order_seq: int = 0  # of the last order meant for it; 0: none
    order: str = ""
    reason: str = ""  # of that order
    notice_s: float | None = None  # when it was told to go. None: it was not
    urgent: bool = False  # ... without waiting for a checkpoint
    term_s: float | None = None  # when it was to be sent SIGTERM. None: not yet
    kill_s: float | None = None  # when its grace is over. None: it was not told to go
    heard: Heard | None = None  # None: its program never attached
    exit: Exit | None = None
    answered: bool = False  # what its end means for the job has been drawn

    @property
    def place(self) -> Worker:
        return Worker(self.role, self.ordinal, self.node, self.devices)

    @property
    def live(self) -> bool:
        return self.state is not WorkerState.EXITED

    @property
    def wanted(self) -> bool:
        return self.state is WorkerState.PLANNED or self.state is WorkerState.RUNNING


class Progress(NamedTuple):
    """How far a job has come, as its leader last said."""

    at_s: float  # when it said so
    step: int = 0
    epoch: int = 0
    units_done: float = 0.0
    units_total: float | None = None
    step_s: float | None = None
    metrics: Record = {}  # noqa: RUF012  (never changed)
    checkpoint: Record | None = None  # step, bytes, saveSeconds, at
    save_s: float | None = None
    load_s: float | None = None
    restart_s: float | None = None  # what the latest stop and start cost beside the save
    problem: str | None = None
    remaining_s: float | None = None  # as the program itself expects it. None: it does not say


class Evaluation(NamedTuple):
    """The latest evaluation that was judged, and the judge's state after it."""

    metric: str
    value: float
    at_s: float
    step: int = 0  # at which it was made
    gap: int = 0  # steps since the one before; 0: there was none
    incarnation: int = 0  # that made it
    made: int = 1  # evaluations so far
    growth: Growth = Growth()
    judged: Record = {}  # noqa: RUF012  (never changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    uid: str
    id: JobId
    manifest: str  # verbatim
    cwd: str
    submitted_s: float
    phase: Phase = Phase.WAITING
    reason: str = ""
    message: str = ""
    generation: int = 1  # of the spec: raised by every edit
    bounds: tuple[int, int] | None = None  # min and max as a user scaled them. None: as the manifest has them
    suspended: bool = False  # by its owner
    deleting: bool = False
    assigned: tuple[Worker, ...] = ()  # what the scheduler last decided
    warm: bool = False  # the change under way starts the new gang beside the old one
    change: int | None = None  # the change under way. None: none is
    held_s: float | None = None  # since when all stand still so that members may come and go. None: they do not
    incarnation: int = 0  # the one that trains; 0: none did yet
    incarnation_last: int = 0  # the highest that was planned
    as_of_s: float = 0.0
    resumes_s: float = 0.0
    waiting_since_s: float | None = None
    first_started_s: float | None = None
    active_s: float | None = None  # first placed since it was last suspended: what a deadline counts from
    started_s: float | None = None
    seat_s: float | None = None  # `started_s` before the change under way, which goes on counting from there
    gpu_s: float = 0.0
    ran_s: float = 0.0
    gpu_s_since_start: float = 0.0
    last_ran_s: float = 0.0
    finished_s: float | None = None
    failures: int = 0  # counted against backoffLimit
    failed_s: float | None = None  # when the latest of them was
    retry_s: float | None = None  # not started again before this moment
    losses: int = 0  # of nodes, in a row, that the whole gang was restarted for: the pause before the next grows
    lost_s: float | None = None  # when the latest of them was
    restarts: int = 0
    resizes: int = 0
    migrations: int = 0
    steps_lost: int = 0
    conditions: Conditions = ()
    progress: Progress | None = None
    evaluation: Evaluation | None = None  # None: it never told of one
    points: tuple[ProgressPoint, ...] = ()

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def active_since_s(self) -> float | None:
        """What a deadline counts from. Rows of an older version say it of running jobs by their first start."""
        return self.first_started_s if self.active_s is None and self.assigned else self.active_s


class Stage(StrEnum):
    PENDING = "Pending"
    WARMING = "Warming"
    NOTICED = "Noticed"
    COMMITTED = "Committed"
    RESUMING = "Resuming"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REFUSED = "Refused"


CLOSED = frozenset({Stage.SUCCEEDED, Stage.FAILED, Stage.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One interruption of one job: asked for, decided or suffered; what it cost is filled in as it becomes known."""

    id: int
    job_uid: str
    job_id: JobId
    kind: ChangeKind
    stage: Stage = Stage.PENDING
    why: str = ""  # in one word
    message: str = ""  # in a sentence
    worker: int | None = None  # ordinal, where one worker was asked to move
    before: tuple[Worker, ...] = ()
    after: tuple[Worker, ...] = ()
    to: NodeId | None = None  # where it was asked to go. None: no node was named
    asked: bool = False  # by a request, rather than decided
    requested_s: float = 0.0
    finished_s: float | None = None
    warm: bool = False
    by: str = ""  # the rebalancer whose proposal it was. Empty: none's
    benefit_s: float | None = None  # what the rebalancer expected of it. None: it expected no number
    estimated_cost_s: float | None = None
    save_s: float | None = None
    load_s: float | None = None
    downtime_s: float | None = None
    step: int | None = None  # the last one before
    last_step_mono_s: float | None = None  # when it was made, on the machine's monotonic clock
    step_after: int | None = None  # that training went on from
    steps_lost: int | None = None
    from_incarnation: int = 0

    @property
    def open(self) -> bool:
        return self.stage not in CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    id: int
    at_s: float
    job_id: JobId | None
    node_id: NodeId | None
    warning: bool
    reason: str
    message: str
    data: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    id: NodeId
    cordoned: bool = False
    ready: bool = True
