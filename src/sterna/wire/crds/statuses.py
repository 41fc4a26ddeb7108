"""What the operator writes into `status`: the fields that Kubeflow's users know, DRAGON's three moments, and ours.

These shapes are where the schemas of the custom resources come from. They name what columns show and what other
programs may rely on; beside them the operator keeps in `scheduling` whatever it needs to go on after a restart.
"""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from sterna.model.migrations import MigrationPhase
from sterna.wire.manifests.shapes import OpenShape, Shape

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Whole = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Condition(Shape):
    """One thing that can be true of an object. The one that changed last stands last."""

    type: str
    status: Annotated[str, WithJsonSchema({"type": "string", "enum": ["True", "False", "Unknown"]})]
    reason: str = ""
    message: str = ""
    observed_generation: Whole = 0
    last_update_time: Time | None = None
    last_transition_time: Time | None = None


class ReplicaStatus(Shape):
    active: Whole = 0
    succeeded: Whole = 0
    failed: Whole = 0
    selector: str = ""
    label_selector: dict[str, Any] = Field(default_factory=dict)  # as older releases of Kubeflow wrote it


class Scheduling(OpenShape):
    """How the scheduler sees the job, and everything it must remember of it."""

    state: str = ""  # Waiting, Starting, Running, Resizing, Migrating, Restarting, Suspended, Succeeded, Failed
    workers: str = ""  # "2/1-4": how many run, and the bounds
    gpus: str = ""  # "2" or "0.5", of all roles
    nodes: str = ""  # "node-1,node-2", those that the job has a pod on
    reason: str = ""  # one word of a closed list
    message: str = ""  # the same in a sentence, with numbers
    restarts: Whole = 0
    resizes: Whole = 0
    migrations: Whole = 0


_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
Conditions = Annotated[list[Condition], Field(default_factory=list, json_schema_extra=_BY_TYPE)]


class JobStatus(Shape):
    conditions: Conditions
    replica_statuses: dict[str, ReplicaStatus] = Field(default_factory=dict)  # by Worker, PS, ...
    start_time: Time | None = None
    completion_time: Time | None = None
    last_reconcile_time: Time | None = None
    enqueue_time: Time | None = None  # when it began to wait
    start_run_time: Time | None = None  # when it was first placed
    finished_time: Time | None = None
    observed_generation: Whole = 0
    selector: str = ""  # of its workers' pods: what the scale subresource tells an autoscaler
    scheduling: Scheduling = Scheduling()


class MigrationStatus(Shape):
    phase: Annotated[MigrationPhase, Field(strict=False)] = MigrationPhase.PENDING
    reason: str = ""
    message: str = ""
    from_: str = Field(default="", alias="from")  # nodes, separated by commas
    to: str = ""
    worker: Whole | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    downtime_seconds: Seconds | None = None  # how long training stood still
    committed_step: Whole | None = None  # the step that the job acknowledged and went on from
    conditions: Conditions
    observed_generation: Whole = 0
