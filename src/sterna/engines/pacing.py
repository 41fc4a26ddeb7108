"""When may the next cycle begin? A coalescing flag with sequence numbers, and a rate limit.

Pure bookkeeping: the caller brings the clock. Any number of asks before a cycle begins are answered by that one cycle,
and an ask that arrives while a cycle runs is never lost: it is newer than what the cycle looked at.
"""

import math
from enum import StrEnum

from sterna.model.errors import InvalidRequest


class Happening(StrEnum):
    """What an engine noticed. Only some of it can change a decision."""

    STARTED_UP = "started up"
    JOB_ACCEPTED = "job accepted"
    JOB_COMPLETED = "job completed"
    JOB_FAILED = "job failed"
    JOB_SUSPENDED = "job suspended"
    JOB_RESUMED = "job resumed"
    RUNNING_JOB_DELETED = "running job deleted"
    WAITING_JOB_DELETED = "waiting job deleted"
    FINISHED_JOB_DELETED = "finished job deleted"
    WORKERS_GONE = "workers gone"
    NODE_ADDED = "node added"
    NODE_DELETED = "node deleted"
    NODE_RECREATED = "node recreated"
    NODE_CHANGED = "node changed"  # readiness, cordon, taints, allocatable
    PRIORITY_CHANGED = "priority changed"
    POLICY_CHANGED = "policy changed"
    RATE_LIMIT_CHANGED = "rate limit changed"
    SERVING_ARRIVED = "serving pod arrived"
    SERVING_LEFT = "serving pod left"
    PROGRESS_REPORTED = "progress reported"
    GROWTH_CHANGED = "growth changed"  # a job is in another category than before
    CYCLE_FAILED = "cycle failed"
    TIMER = "timer"


DOES_NOT_WAKE = frozenset(
    {
        Happening.WAITING_JOB_DELETED,  # it held nothing, so no other job gains
        Happening.FINISHED_JOB_DELETED,
        Happening.RATE_LIMIT_CHANGED,  # takes effect with the next block
        Happening.PROGRESS_REPORTED,  # read at the next cycle; a report a second must not be a cycle a second
    }
)


class Pacer:
    """Decides when cycles run; remembers no more than two counters and a moment."""

    __slots__ = ("_asked", "_free_from_s", "_rate_limit_s", "_served")

    def __init__(self, *, rate_limit_s: float = 0.0) -> None:
        self._asked = 0
        self._served = 0
        self._free_from_s = -math.inf
        self.rate_limit_s = rate_limit_s

    @property
    def rate_limit_s(self) -> float:
        return self._rate_limit_s

    @rate_limit_s.setter
    def rate_limit_s(self, seconds: float) -> None:
        """Effective from the end of the next cycle on."""
        if not 0 <= seconds < math.inf:
            raise InvalidRequest(field="rate limit", value=seconds, expected="seconds, 0 or more")
        self._rate_limit_s = seconds

    def notice(self, happening: Happening) -> None:
        if happening not in DOES_NOT_WAKE:
            self._asked += 1

    def due_s(self, now_s: float) -> float | None:
        """The moment the next cycle should begin; None while none is asked for."""
        if self._asked == self._served:
            return None
        return max(now_s, self._free_from_s)

    def is_free(self, now_s: float) -> bool:
        """Has the time passed that lies between two cycles?"""
        return now_s >= self._free_from_s

    def begin(self) -> int:
        """A cycle looks at the world now: it answers everything asked so far. Returns the ticket for `end`."""
        return self._asked

    def end(self, ticket: int, now_s: float) -> None:
        self._served = ticket
        self._free_from_s = now_s + self._rate_limit_s
