"""What the planner answers: ordered steps of actions, and what an engine says of each. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId
from sterna.model.jobs import Worker
from sterna.model.layout import Layout
from sterna.model.target import PolicyMemory, Target
from sterna.model.why import Because


class Shrink(NamedTuple):
    """Let go of every worker that is not in `to`. With `to` empty the job stops, its state kept in its checkpoint."""

    job_id: JobId
    to: tuple[Worker, ...]
    because: Because


class Grow(NamedTuple):
    """Hold exactly `to`, which contains every worker that survived."""

    job_id: JobId
    to: tuple[Worker, ...]
    because: Because


Action = Shrink | Grow


class Step(NamedTuple):
    """Actions that may happen at the same time."""

    actions: tuple[Action, ...]
    after_release: bool  # only once every worker that was told to go is gone: this step uses their room


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything one cycle decided, and why."""

    revision: int  # of the snapshot it was made from, so that a stale plan can be refused
    target: Target
    layout: Layout
    steps: tuple[Step, ...]
    memory: PolicyMemory
    wake_s: float | None  # look again at this moment at the latest. None: only when something happens
    verdicts: Mapping[JobId, Because] = field(default_factory=dict)  # jobs that no policy could help, and why
    considered: tuple[ConsideredMove, ...] = ()  # by rebalancers, in the order in which they looked
    chosen: Mapping[JobId, Because] = field(default_factory=dict)  # why jobs that take any accelerator are in a pool
    kept_for: tuple[JobId, ...] = ()  # jobs that waited so long that nodes are kept for them, one a pool
    idle_cpu_share: float | None = None  # as the settings had it: reasons are worked out later, and by the same pools

    @property
    def changes_something(self) -> bool:
        return bool(self.steps)

    def because_of(self, job_id: JobId) -> Because:
        """Why this job has what it has, or why it waits: the planner's reason, else placement's, else the policy's."""
        return self.verdicts.get(job_id) or self.layout.becauses.get(job_id) or self.target.because_of(job_id)


class Held(StrEnum):
    """What came of an action."""

    DONE = "done"  # the world is as the action wanted it
    BEGUN = "begun"  # accepted; workers are still leaving
    STALE = "stale"  # the world had moved on: look again
    TRY_AGAIN = "try again"  # trouble outside this process
    REFUSED = "refused"  # a final no from outside this process


class Outcome(NamedTuple):
    action: Action
    held: Held
    message: str = ""
    after_s: float | None = None  # when to try again. None: no opinion

    @property
    def went_well(self) -> bool:
        return self.held is Held.DONE or self.held is Held.BEGUN
