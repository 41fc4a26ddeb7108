"""Kubernetes objects as far as this engine reads them: partial shapes that are decoded straight from the wire.

A cluster holds thousands of pods of several kilobytes each, so what is not named here is never made into Python.
Objects that are written whole (pods, services) are plain dicts, built elsewhere; these shapes are for reading alone.
"""

from typing import Any, Generic, TypeVar

import msgspec

ObjectT = TypeVar("ObjectT", bound="KubeObject")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Unknown keys are left out; a key without a value is a key left out."""


class OwnerReference(Shape, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Shape, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None  # for pods the moment the grace period is over, not when it was asked for
    deletion_grace_period_seconds: int | None = None

    def label(self, key: str) -> str | None:
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        return self.annotations.get(key) if self.annotations else None


class KubeObject(Shape, frozen=True):
    metadata: Meta = Meta()

    @property
    def key(self) -> tuple[str, str]:
        return (self.metadata.namespace, self.metadata.name)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


# -- pods -------------------------------------------------------------------------------------------------------------


class Amounts(Shape, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class ContainerPort(Shape, frozen=True):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(Shape, frozen=True):
    name: str = ""
    resources: Amounts | None = None
    restart_policy: str | None = None  # "Always" on an init container: a sidecar, counted like a container
    ports: list[ContainerPort] | None = None


class Expression(Shape, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Shape, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class PodAffinityTerm(Shape, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAntiAffinity(Shape, frozen=True):
    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Shape, frozen=True):
    """Of a pod that is there: what keeps others out. What it wanted for itself is no longer of interest."""

    pod_anti_affinity: PodAntiAffinity | None = None


class PodToleration(Shape, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSpec(Shape, frozen=True):
    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int | float] | None = None  # of its runtime class, put there by admission
    resources: Amounts | None = None  # of the pod as a whole
    affinity: Affinity | None = None
    termination_grace_period_seconds: int | None = None
    restart_policy: str = ""


class Terminated(Shape, frozen=True):
    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""  # what the program left in its termination log: the SDK leaves its last status there
    started_at: str | None = None
    finished_at: str | None = None


class Waiting(Shape, frozen=True):
    reason: str = ""
    message: str = ""


class Running(Shape, frozen=True):
    started_at: str | None = None


class ContainerState(Shape, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Shape, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    resources: Amounts | None = None  # what it has, while its spec may ask for something else by now
    allocated_resources: dict[str, str | int | float] | None = None  # what its node has granted


class PodCondition(Shape, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(Shape, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Amounts | None = None  # as those of a container, of the pod as a whole
    allocated_resources: dict[str, str | int | float] | None = None


class Pod(KubeObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def over(self) -> bool:
        """Its containers have ended for good: it takes no room any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        return any(found.type == "Ready" and found.status == "True" for found in self.status.conditions or ())


# -- nodes ------------------------------------------------------------------------------------------------------------


class NodeTaint(Shape, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Shape, frozen=True):
    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class NodeStatus(Shape, frozen=True):
    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: list[PodCondition] | None = None


class NodeObject(KubeObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(found.type == "Ready" and found.status == "True" for found in self.status.conditions or ())


# -- what belongs to jobs ---------------------------------------------------------------------------------------------


class UnreadObject(KubeObject, frozen=True):
    """Spec and status stay bytes until they are needed."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        # As decoded they are windows into the whole answer, and one object would keep a page of five hundred alive.
        msgspec.structs.force_setattr(self, "spec", self.spec.copy())
        msgspec.structs.force_setattr(self, "status", self.status.copy())


class JobObject(UnreadObject, frozen=True):
    """A TFJob, PyTorchJob, MPIJob or ElasticJob."""

    api_version: str = ""
    kind: str = ""


class ServiceSpec(Shape, frozen=True):
    selector: dict[str, str] | None = None


class ServiceObject(KubeObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ConfigMapObject(KubeObject, frozen=True):
    data: dict[str, str] | None = None


class ReviewedUser(Shape, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class ReviewStatus(Shape, frozen=True):
    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    audiences: list[str] | None = None


class TokenReviewObject(KubeObject, frozen=True):
    status: ReviewStatus = ReviewStatus()


class MigrationObject(UnreadObject, frozen=True):
    pass


class SharePodObject(UnreadObject, frozen=True):
    pass


class LeaseSpec(Shape, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseObject(KubeObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class ListMeta(Shape, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(Shape, Generic[ObjectT], frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[ObjectT] | None = None  # Go writes an empty list as null now and then


Body = dict[str, Any]  # an object as it is written
