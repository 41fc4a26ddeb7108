"""Facts for users: what happened to a job or a node, and why. Values only.

They go to the journal, and `explain`, the page and Kubernetes Events read them from there. Deriving them from a
decision is `journal/facts.py`; what was not decided (a job that ended, a node that was lost) is reported by engines.
"""

from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Worker
from sterna.model.phases import Phase
from sterna.model.why import Because

Workers = tuple[Worker, ...]


class JobSubmitted(NamedTuple):
    at_s: float
    job_id: JobId


class JobStarted(NamedTuple):
    """From nothing to something, for the first time or again."""

    at_s: float
    job_id: JobId
    after: Workers
    because: Because


class JobResized(NamedTuple):
    """More or fewer workers. Some may have moved on the way: `before` and `after` tell."""

    at_s: float
    job_id: JobId
    before: Workers
    after: Workers
    because: Because


class JobMigrated(NamedTuple):
    """As many workers as before, elsewhere."""

    at_s: float
    job_id: JobId
    before: Workers
    after: Workers
    because: Because


class JobPreempted(NamedTuple):
    """From something to nothing; its state is in its checkpoint."""

    at_s: float
    job_id: JobId
    before: Workers
    because: Because


class JobWaits(NamedTuple):
    """It wants workers, has none, and is not about to get any."""

    at_s: float
    job_id: JobId
    because: Because


class JobFinished(NamedTuple):
    at_s: float
    job_id: JobId
    phase: Phase  # Succeeded or Failed
    message: str = ""


class NodeJoined(NamedTuple):
    at_s: float
    node_id: NodeId


class NodeLost(NamedTuple):
    """Gone or not ready: whatever was on it is lost up to its last checkpoint."""

    at_s: float
    node_id: NodeId


class NodeDrained(NamedTuple):
    """To be emptied: what is on it may save itself and move."""

    at_s: float
    node_id: NodeId


JobEvent = JobSubmitted | JobStarted | JobResized | JobMigrated | JobPreempted | JobWaits | JobFinished
NodeEvent = NodeJoined | NodeLost | NodeDrained
Event = JobEvent | NodeEvent
