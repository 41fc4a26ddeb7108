"""One job as one look sees it: everything its reconciliation may use, and nothing it may not. Values only.

The operator makes a `JobView` from its caches; `reconcile` and the intentions read nothing else.
"""

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Body, ConfigMapObject, Pod, ServiceObject
from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle.admission_denials import PATIENCE_S, Answer
from sterna.lifecycle.counted_requests import counted_spec
from sterna.lifecycle.held_back import FREE, Hold
from sterna.model.conditions import Conditions
from sterna.model.ids import JobId
from sterna.model.jobs import JobSpec, Role
from sterna.model.workload import Workload


class NodeFacts(NamedTuple):
    """What matters about a node to a job that has a seat there. One that is not in `JobView.nodes` does not exist."""

    ready: bool = True  # or not ready for so short a time that it is not believed to be lost
    doubted: bool = False  # what runs there stays, nothing new comes for now
    unschedulable: bool = False  # cordoned: what runs there stays, nothing new comes
    drained: bool = False  # ... and what runs there is being moved away


class Hindrance(NamedTuple):
    """What the API server answered when pods of the job, or what they need, were last to be made: no."""

    denied: bool  # by admission. False: this process lacks the right, which is no matter of the job
    message: str
    again_s: float  # nothing is made before
    tries: int = 1  # in a row


class ReplicaCount(NamedTuple):
    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The status as the cluster has it: made by `status_reading.status_read`, which takes whatever a user put there."""

    body: Mapping[str, Any] = field(default_factory=dict)  # as it is: what is to be written is compared with it
    conditions: Conditions = ()
    replicas: Mapping[str, ReplicaCount] = field(default_factory=dict)  # by type: PS, Worker, ...
    completed_s: float | None = None
    recorded: Standing = Standing()  # what `scheduling` says
    note: str = ""  # what could not be read of it. Empty: nothing
    overwritten: bool = False  # by another client: `body` is as it is, everything else as it was left


@dataclass(frozen=True, kw_only=True)
class JobView:
    """Not slotted: the spec for the core is worked out once, on first use."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int = 1
    resource_version: str = ""
    created_s: float = 0.0
    deleting: bool = False
    managed_by: str | None = None  # name of another controller: the job is left wholly alone
    workload: Workload | None  # the last reading that made sense. None: there is none
    kept: str = ""  # ... as it is kept for an operator that knows nothing of it. Empty: it is too large, or none
    problem: str = ""  # why the spec as it is now makes no sense. Empty: it does
    unhonoured: str = ""  # what the spec asks for and does not get, by path. Empty: it gets all of it
    hold: Hold = FREE  # what keeps it from being started, and where its volumes let it run
    templates: Mapping[Role, Body] = field(default_factory=dict)  # raw pod templates {"metadata":, "spec":}, whole
    main_container: str = ""  # whose end decides (MPIJob's mainContainer). Empty: the kind's usual one
    status: JobStatus = JobStatus()
    standing: Standing = Standing()  # what is intended: `status.recorded`, or what an intention has just made of it
    pods: tuple[Pod, ...] = ()  # those that the job owns, and those of `unowned`
    vanished: tuple[Pod, ...] = ()  # gone since the last look, as they were last seen: their last messages count
    services: tuple[ServiceObject, ...] = ()  # the same
    config_map: ConfigMapObject | None = None  # the same
    unowned: frozenset[str] = frozenset()  # uids of what is surely the job's and has lost its owner reference
    taken: Container[tuple[str, str]] = frozenset()  # kinds and names of its namespace that others than it have
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)  # of the whole cluster
    hindrance: Hindrance | None = None  # None: nothing was refused
    answer: Answer | None = None  # whether one more pod would be let in, as the API server just said. None: not asked
    told: Collection[int] = ()  # numbers of its announcements that are known to be recorded

    @property
    def id(self) -> JobId:
        return JobId(f"{self.namespace}/{self.name}")

    @cached_property
    def spec(self) -> JobSpec | None:
        """What the scheduling core is told. None: there is no reading that makes sense."""
        if self.workload is None:
            return None
        return counted_spec(self.workload.job_spec(submitted_s=self.created_s), self.standing.counted)

    @property
    def is_held_back(self) -> bool:
        """It holds nothing and may not be started. One that holds something goes on."""
        return self.hold.holds and not self.standing.seats

    def but(self, standing: Standing) -> "JobView":
        """The same look with another intention."""
        return replace(self, standing=standing)


@dataclass(frozen=True, slots=True)
class MonitorAt:
    """Where and with which secret pods report how they train: to the monitor of their own node."""

    port: int
    secret: str = field(repr=False)  # the installation's; pods get what follows from it for their job


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is the same for all jobs."""

    binding: Binding = Binding.NODE_NAME
    nudge: bool = False
    cluster_domain: str = ""
    epoch: int = 0  # lease transitions of the leader that looks
    monitor: MonitorAt | None = None  # None: pods are told of none
    admission_patience_s: float = PATIENCE_S  # how long refused pods are tried before their seats are given back
