"""How a job stands: everything that must survive a restart of the operator, as one value kept in the job's own status.

`status.scheduling` of the custom resource holds it, beside the conditions and counts that users of these kinds know.
What is intended is here (`seats`), what is true is in the pods; what is left to do follows from comparing the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sterna.lifecycle.admission_denials import Denial
from sterna.lifecycle.counted_requests import Counted
from sterna.lifecycle.node_refusals import Refusal
from sterna.model.growth import Growth
from sterna.model.jobs import Disruption, Role, Worker
from sterna.model.phases import FINISHED, Phase


class Seat(NamedTuple):
    """One worker's place in the plan."""

    worker: Worker
    slot: str  # five letters that stay when its pod is made anew in the same place: `tf-job-workerid`


class Progress(NamedTuple):
    """How far the job has come, as the last message of its leader said (`protocol.Status`, its termination message)."""

    step: int = 0
    epoch: int = 0
    units_done: float = 0.0
    units_total: float | None = None  # None: the program did not say
    save_s: float | None = None
    restart_s: float | None = None  # what the latest change cost beside saving
    step_s: float | None = None  # how long a step took it lately
    workers: int = 0  # how many trained together. 0: the program did not say


class Reported(NamedTuple):
    """How a job trains, as its monitors told: exact when it was written, which is seldom (`training_facts.py`)."""

    at_s: float
    units_done: float = 0.0
    units_total: float | None = None  # None: the program did not say
    workers: int = 0
    unit_s: float | None = None  # how long a unit took with so many workers. None: not measured yet


class Change(NamedTuple):
    """A resize, move, preemption or restart that is under way: from the decision until training goes on."""

    kind: str  # a `ChangeKind`, or what a newer operator calls it
    why: str
    message: str
    before: tuple[Worker, ...]
    after: tuple[Worker, ...]
    began_s: float
    stopped_s: float | None = None  # when the last of those that had to stop for it was gone. None: not yet
    committed_step: int | None = None  # None: none was acknowledged
    migration: str = ""  # namespace/name/uid of the Migration object that asked for it; empty: none did


class Past(NamedTuple):
    """A change that is over, as the history shows it."""

    kind: str
    why: str
    message: str
    before: tuple[Worker, ...]
    after: tuple[Worker, ...]
    began_s: float
    ended_s: float
    downtime_s: float | None
    committed_step: int | None
    result: str  # Succeeded, Failed
    migration: str = ""  # as in Change


class Announcement(NamedTuple):
    """An event to be recorded about the job, here until it is known to be recorded (`announcement_queue.py`)."""

    number: int  # of all events of this job, from 1: one that is recorded again by a restarted operator is recognised
    at_s: float
    reason: str
    message: str = ""
    warning: bool = False
    decision: str = ""  # the id of the decision that was in force for the job. Empty: there was none yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Moments are seconds since 1970 (UTC). Counters are exact at `as_of_s` and grow at the rate of what is held."""

    phase: Phase = Phase.WAITING
    reason: str = ""  # a `Why`, or one of the closed reasons of an ending
    message: str = ""
    numbers: tuple[tuple[str, float | str], ...] = ()
    decision: str = ""  # the id of the latest decision that changed what it holds, or why it waits
    seats: tuple[Seat, ...] = ()  # what the job is to hold, fixed roles first, then by ordinal
    incarnation: int = 0  # of the gang that trains; raised whenever the whole gang is started anew
    done: tuple[tuple[Role, int], ...] = ()  # of this incarnation: those that ended well and are not started again
    answered: tuple[str, ...] = ()  # ends that were taken into account, of pods that are still there: uid/restarts
    enqueued_s: float | None = None  # when the operator first saw it. None: it has not
    waiting_since_s: float | None = None
    first_started_s: float | None = None
    started_s: float | None = None
    active_s: float | None = None  # first placed since it was last suspended: what a deadline counts from
    seat_s: float | None = None  # it let go of everything only to come back: when its present run began
    as_of_s: float = 0.0
    gpu_s: float = 0.0
    ran_s: float = 0.0
    gpu_s_since_start: float = 0.0
    last_ran_s: float = 0.0
    resumes_s: float = 0.0
    failures: int = 0  # counted against backoffLimit
    failed_s: float | None = None
    losses: int = 0  # of nodes, in a row, that the whole gang was restarted for: the pause before the next grows
    lost_s: float | None = None
    rejections: int = 0  # pods in a row that kubelets did not let in or threw out: the pause before the next grows
    refusals: tuple[Refusal, ...] = ()  # nodes that did not let its pods in
    denial: Denial | None = None  # admission did not let its pods in. None: it did
    counted: Counted = ()  # what its workers are counted for, where that is not what their template says
    retry_s: float | None = None  # do not start anything before. None: at once
    restarts: int = 0  # containers and gangs started again after a failure, shown to users
    resizes: int = 0
    migrations: int = 0
    steps_lost: int = 0
    progress: Progress | None = None
    reported: Reported | None = None  # None: no monitor told anything yet
    growth: Growth | None = None  # how its evaluation value grows. None: not judged yet
    metric: str = ""  # what that value is called. Empty: it has no name
    judged: Mapping[str, object] = field(default_factory=dict)  # what the judge needs to go on from `growth`
    disruptions: tuple[Disruption, ...] = ()  # the latest 32
    change: Change | None = None
    history: tuple[Past, ...] = ()  # the latest 20
    finished_s: float | None = None
    announced: int = 0  # how many events there were so far: the number of the latest
    announcements: tuple[Announcement, ...] = ()  # the latest of those that may not be recorded yet
    kept: str = ""  # the last valid spec (`kept_spec.py`). Empty: there is none, or it is too large
    epoch: int = 0  # lease transitions of the leader that wrote this: an older leader finds out that it is one

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def assigned(self) -> tuple[Worker, ...]:
        return tuple(seat.worker for seat in self.seats)
