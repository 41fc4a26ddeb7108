"""What the kinds of job have in common, in the shape their authors write it. Each kind's own shape is in its module.

Unknown keys are errors at every level that is a job's own; only inside pods may others stand.
"""

from typing import Annotated

from pydantic import Field

from sterna.model.workload import CleanUp
from sterna.wire.fields import Count, WholeNumber
from sterna.wire.manifests.pods import Amounts, Pairs, PodTemplate, Policy, Seconds, Text
from sterna.wire.manifests.shapes import OpenShape, Shape, words


class Metadata(OpenShape):
    foreign = words(
        "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generation "
        "managedFields ownerReferences resourceVersion selfLink uid"
    )

    name: Text = ""
    generate_name: Text = ""  # where there is no name: the beginning of one, which the engine completes
    namespace: Text = "default"
    labels: Pairs = Field(default_factory=dict)
    annotations: Pairs = Field(default_factory=dict)

    @property
    def called(self) -> str:
        """The name; one that ends in "-" is to be completed."""
        return self.name or (f"{self.generate_name.removesuffix('-')}-" if self.generate_name else "")


class SchedulingPolicy(Shape):
    min_available: WholeNumber | None = None
    queue: Text = ""
    min_resources: Amounts = Field(default_factory=dict)
    priority_class: Text = ""
    schedule_timeout_seconds: Seconds | None = None


class FlatRunPolicy(Shape):
    """What older manifests have in the spec itself."""

    clean_pod_policy: Annotated[CleanUp, Field(strict=False)] | None = None
    ttl_seconds_after_finished: Seconds | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: WholeNumber | None = None


class RunPolicyBody(FlatRunPolicy):
    suspend: bool = False
    managed_by: Text | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class Replica(Shape):
    """One role of Kubeflow's kinds."""

    replicas: Count | None = None
    restart_policy: Policy | None = None
    template: PodTemplate | None = None


class JobShape(Shape):
    """What stands around every spec."""

    foreign = frozenset({"status"})

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
