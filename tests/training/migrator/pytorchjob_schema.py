"""A PyTorchJob as the Kubernetes API takes it, as far as the manifests of these tests use it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Strict(BaseModel):
    """Names as in YAML; a field that is not known is an error, as it is for the API server."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]


class Meta(Strict):
    name: Name
    namespace: Name = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateMeta(Strict):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Variable(Strict):
    name: Annotated[str, Field(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    value: str


class Exec(Strict):
    command: Annotated[list[str], Field(min_length=1)]


class Handler(Strict):
    exec: Exec


class Lifecycle(Strict):
    pre_stop: Handler | None = None
    post_start: Handler | None = None


class Mount(Strict):
    name: Name
    mount_path: Annotated[str, Field(pattern=r"^[^:]+$")]
    read_only: bool = False


class Container(Strict):
    name: Name
    image: str
    command: list[str] = []
    env: list[Variable] = []
    lifecycle: Lifecycle | None = None
    volume_mounts: list[Mount] = []
    resources: dict[str, dict[str, int | str]] = {}


class Claim(Strict):
    claim_name: Name
    read_only: bool = False


class Volume(Strict):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    persistent_volume_claim: Claim


class Expression(Strict):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []


class Term(Strict):
    match_expressions: list[Expression] = []


class Required(Strict):
    node_selector_terms: Annotated[list[Term], Field(min_length=1)]


class NodeAffinity(Strict):
    required_during_scheduling_ignored_during_execution: Required | None = None
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] = []


class Affinity(Strict):
    node_affinity: NodeAffinity


class Pod(Strict):
    host_ipc: Annotated[bool, Field(alias="hostIPC")] = False
    affinity: Affinity
    node_selector: dict[str, str] = {}
    volumes: list[Volume]
    containers: Annotated[list[Container], Field(min_length=1)]
    termination_grace_period_seconds: Annotated[int, Field(ge=0)] = 30


class Template(Strict):
    metadata: TemplateMeta = TemplateMeta()
    spec: Pod


class Replica(Strict):
    replicas: Annotated[int, Field(ge=0)] = 1
    restart_policy: Literal["Always", "OnFailure", "Never", "ExitCode"]
    template: Template


class Spec(Strict):
    pytorch_replica_specs: dict[Literal["Master", "Worker"], Replica]


class PyTorchJob(Strict):
    api_version: Literal["kubeflow.org/v1"]
    kind: Literal["PyTorchJob"]
    metadata: Meta
    spec: Spec
