"""What a rebalancer looked at in one round, moved or not: the lines of SpeCon's `distribution.csv`. Values only."""

from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Worker
from sterna.model.why import Because


class ConsideredMove(NamedTuple):
    by: str  # the rebalancer's name
    job_id: JobId
    worker: Worker  # where it was
    to: NodeId | None  # None: looked at, and left where it is
    because: Because  # why it moves, or why not
    benefit_s: float = 0.0
    cost_s: float = 0.0
