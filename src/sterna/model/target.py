"""What a policy answers: how many workers each job should hold, and what the policy wants to remember.

Where those workers go is the layout's question.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sterna.model.ids import JobId
from sterna.model.why import NO_ROOM, Because


class Grant(NamedTuple):
    """How many elastic workers a job should hold. Fixed roles come with the first of them."""

    workers: int
    floor: int  # placement may give fewer, down to this, where nodes are fragmented; below it the job gets nothing
    because: Because


@dataclass(frozen=True, slots=True)
class PolicyMemory:
    """What a policy carries from one cycle to the next. It travels with the snapshot and is kept in the journal,
    so a restarted scheduler decides exactly as it would have. Plain numbers only, so that any engine can store it.
    """

    jobs: Mapping[JobId, Mapping[str, float]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    last_action_s: float | None = None  # when a plan last changed anything; stamped by the planner. None: never


@dataclass(frozen=True, slots=True)
class Target:
    grants: Mapping[JobId, Grant]  # in order of precedence: placement serves them so. Absent: nothing
    memory: PolicyMemory = field(default_factory=PolicyMemory)
    wake_s: float | None = None  # the policy's answer changes at this moment even if nothing happens. None: it does not
    whole: str = (
        ""  # rigid policies: a job gets this size of its spec or nothing, "initial" or "max". Empty: its minimum
    )
    left_out: Mapping[JobId, Because] = field(default_factory=dict)  # where the reason is not `otherwise`
    otherwise: Because = NO_ROOM  # why a job that is mentioned nowhere gets nothing
    wishes: bool = False  # the placement settles how much of each grant comes true, and it is not repaired afterwards
    make_room_for: JobId | None = None  # others may be cut down to their minimum for this job, if that lets it start

    def workers_of(self, job_id: JobId) -> int:
        grant = self.grants.get(job_id)
        return 0 if grant is None else grant.workers

    def because_of(self, job_id: JobId) -> Because:
        grant = self.grants.get(job_id)
        return self.left_out.get(job_id, self.otherwise) if grant is None else grant.because

    def workers_by_job(self) -> dict[JobId, int]:
        """Jobs that get something, and how much: the form tests and tables like."""
        return {job_id: grant.workers for job_id, grant in self.grants.items() if grant.workers}
