"""The parts of a pod that Sterna uses, in the shape Kubernetes gives them. Everything else of a pod may stand beside:
what becomes of it is in `field_uses.py`.

Little is required here: what is missing is reported where it is needed, so that one gap does not hide other problems.
"""

from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from sterna.model.errors import InvalidRequest
from sterna.model.nodes import Effect
from sterna.model.quantities import Quantity, exact
from sterna.model.workload import RestartPolicy
from sterna.wire.fields import QUANTITY_PATTERN
from sterna.wire.manifests.findings import Path
from sterna.wire.manifests.shapes import OpenShape, refuse_keys, words

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "gpu", "gpuMemory")
_OTHER_RESOURCES = ("ephemeral-storage", "storage")
_SECONDS_MAX = 10 * 365 * 24 * 3600
_MANY = 100  # containers, ports, ...: no real pod has more
# Of no type, because a pod takes 0.5 as well, which Kubernetes' "int or string" refuses.
ANYTHING_SCHEMA = {"x-kubernetes-preserve-unknown-fields": True}
QUANTITY_SCHEMA = {"x-kubernetes-preserve-unknown-fields": True, "minimum": 0, "pattern": QUANTITY_PATTERN}


def _no_zero_byte(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("zero_byte", "text without U+0000, which no process can be given")
    return text


def _quantity(value: Any) -> Quantity:
    try:
        exact(value)
    except InvalidRequest as error:
        raise PydanticCustomError("quantity", "{expected}", {"expected": error.expected}) from None
    checked: Quantity = value
    return checked


def _resource_names(value: Any) -> Any:
    if isinstance(value, dict):
        refuse_keys([key for key in value if key not in (*RESOURCES, *_OTHER_RESOURCES)], RESOURCES, all_of_them=False)
    return value


Text = Annotated[str, AfterValidator(_no_zero_byte)]
Words = Annotated[list[Text], Field(max_length=4096)]
Pairs = dict[str, Text]
Seconds = Annotated[int, Field(ge=0, le=_SECONDS_MAX)]
Port = Annotated[int, Field(ge=1, le=65535)]
Policy = Annotated[RestartPolicy, Field(strict=False)]
_QuantityText = Annotated[
    Quantity,
    PlainValidator(_quantity),
    WithJsonSchema(QUANTITY_SCHEMA),
]
Amounts = Annotated[dict[str, _QuantityText], BeforeValidator(_resource_names)]


class FieldRef(OpenShape):
    field_path: Text = ""


class ResourceFieldRef(OpenShape):
    resource: Text = ""
    divisor: _QuantityText = 1


class KeyRef(OpenShape):
    """A key of a ConfigMap or Secret; in `envFrom` without the key."""

    name: Text = ""
    key: Text = ""
    optional: bool = False


class ValueFrom(OpenShape):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class EnvVar(OpenShape):
    name: Text = ""
    value: Text = ""
    value_from: ValueFrom | None = None


Variables = Annotated[list[EnvVar], Field(max_length=1000)]


class EnvFrom(OpenShape):
    prefix: Text = ""
    config_map_ref: KeyRef | None = None
    secret_ref: KeyRef | None = None


class Exec(OpenShape):
    command: Words = Field(default_factory=list)


class Sleep(OpenShape):
    seconds: Seconds = 0


class Hook(OpenShape):
    foreign = frozenset({"httpGet", "tcpSocket"})

    exec: Exec | None = None
    sleep: Sleep | None = None


class Lifecycle(OpenShape):
    foreign = frozenset({"stopSignal"})

    post_start: Hook | None = None
    pre_stop: Hook | None = None


class ContainerPort(OpenShape):
    name: Text = ""
    container_port: Port | None = None
    host_port: Annotated[int, Field(ge=0, le=65535)] = 0  # 0: none
    host_ip: Text = Field(default="", alias="hostIP")
    protocol: Text = "TCP"


class ContainerResources(OpenShape):
    limits: Amounts = Field(default_factory=dict)
    requests: Amounts = Field(default_factory=dict)


class VolumeMount(OpenShape):
    foreign = words("mountPropagation name readOnly recursiveReadOnly subPath subPathExpr")

    mount_path: Text = ""


class Container(OpenShape):
    name: Text = ""
    image: Text = ""
    command: Words = Field(default_factory=list)
    args: Words = Field(default_factory=list)
    env: Variables = Field(default_factory=list)
    env_from: list[EnvFrom] = Field(default_factory=list, max_length=_MANY)
    working_dir: Text | None = None
    resources: ContainerResources = ContainerResources()
    lifecycle: Lifecycle = Lifecycle()
    ports: list[ContainerPort] = Field(default_factory=list, max_length=_MANY)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)


class InitContainer(OpenShape):
    """What is counted of it; the rest is Kubernetes' own matter."""

    foreign = Container.foreign | words("args command env envFrom image lifecycle ports volumeMounts workingDir")

    name: Text = ""
    restart_policy: Text = ""  # Always: a sidecar
    resources: ContainerResources = ContainerResources()


class Operator(StrEnum):
    EXISTS = "Exists"
    EQUAL = "Equal"


class PodToleration(OpenShape):
    key: Text = ""
    operator: Annotated[Operator, Field(strict=False), BeforeValidator(lambda word: word or "Equal")] = Operator.EQUAL
    value: Text = ""
    effect: Annotated[Effect | None, Field(strict=False), BeforeValidator(lambda word: word or None)] = None


class Requirement(OpenShape):
    key: Text = ""
    operator: Text = ""
    values: Words = Field(default_factory=list)


class Term(OpenShape):
    match_expressions: list[Requirement] = Field(default_factory=list)
    match_fields: list[Requirement] = Field(default_factory=list)


class Terms(OpenShape):
    node_selector_terms: list[Term] = Field(default_factory=list)


class WeightedTerm(OpenShape):
    weight: int = 1
    preference: Term = Term()


class NodeAffinity(OpenShape):
    required: Terms = Field(default=Terms(), alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedTerm] = Field(default_factory=list, alias="preferredDuringSchedulingIgnoredDuringExecution")


class LabelSelector(OpenShape):
    """Of pods or namespaces. An empty one selects all of them, one that is left out none."""

    match_labels: Pairs = Field(default_factory=dict)
    match_expressions: list[Requirement] = Field(default_factory=list, max_length=_MANY)


class PodAffinityTerm(OpenShape):
    label_selector: LabelSelector | None = None
    namespaces: Words = Field(default_factory=list)
    namespace_selector: LabelSelector | None = None
    topology_key: Text = ""
    match_label_keys: Words = Field(default_factory=list)
    mismatch_label_keys: Words = Field(default_factory=list)


class PodAffinity(OpenShape):
    """Affinity or anti-affinity to other pods. What is preferred is read and not decided."""

    required: list[PodAffinityTerm] = Field(
        default_factory=list, alias="requiredDuringSchedulingIgnoredDuringExecution", max_length=_MANY
    )
    preferred: list[Any] = Field(default_factory=list, alias="preferredDuringSchedulingIgnoredDuringExecution")


class SpreadConstraint(OpenShape):
    max_skew: int = 1
    topology_key: Text = ""
    when_unsatisfiable: Text = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: Text = "Honor"
    node_taints_policy: Text = "Ignore"
    match_label_keys: Words = Field(default_factory=list)


class Affinity(OpenShape):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class PodSpec(OpenShape):
    containers: list[Container] = Field(default_factory=list, max_length=_MANY)
    init_containers: list[Annotated[InitContainer, WithJsonSchema(ANYTHING_SCHEMA)]] = Field(
        default_factory=list, max_length=_MANY
    )
    resources: ContainerResources = ContainerResources()  # of the pod as a whole
    overhead: Amounts = Field(default_factory=dict)
    volumes: list[Any] = Field(default_factory=list)
    termination_grace_period_seconds: Seconds = 30
    restart_policy: Policy | None = None
    node_name: Text | None = None
    node_selector: Pairs = Field(default_factory=dict)
    tolerations: list[PodToleration] = Field(default_factory=list, max_length=_MANY)
    affinity: Affinity = Affinity()
    topology_spread_constraints: list[SpreadConstraint] = Field(default_factory=list, max_length=_MANY)
    host_network: bool = False
    priority: int | None = None
    priority_class_name: Text = ""


class PodMetadata(OpenShape):
    labels: Pairs = Field(default_factory=dict)
    annotations: Pairs = Field(default_factory=dict)


class PodTemplate(OpenShape):
    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()


class PodAt(NamedTuple):
    """A pod and where its parts are written: in a template, or straight in the spec of our own kind."""

    template: PodTemplate
    path: Path  # of what holds the fields of the pod's spec
    in_template: bool = True

    def container_path(self, index: int) -> Path:
        return (*self.path, "containers", index) if self.in_template else self.path

    @property
    def annotations_path(self) -> Path:
        return (*self.path[:-1], "metadata", "annotations")


def mounts_of(pod: PodAt) -> list[str]:
    """Where its containers have volumes."""
    return [mount.mount_path for container in pod.template.spec.containers for mount in container.volume_mounts]
