"""The kinds as a cluster knows them: names, versions, what is required, and what `kubectl scale` changes."""

from collections.abc import Mapping
from typing import NamedTuple

from sterna.wire.crds.statuses import Condition, JobStatus, MigrationStatus
from sterna.wire.manifests.elasticjob import ElasticJobSpec
from sterna.wire.manifests.job_shapes import Replica
from sterna.wire.manifests.migration import MigrationSpec
from sterna.wire.manifests.mpijob import MPIJobV1Spec, MPIJobV2Spec
from sterna.wire.manifests.pods import Container, ContainerPort, EnvVar, PodSpec, PodTemplate
from sterna.wire.manifests.pytorchjob import PyTorchJobSpec
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.tfjob import TFJobSpec


class MPIJobSpec(MPIJobV1Spec, MPIJobV2Spec):
    """Both versions in one: the API server converts nothing, so each must take what was written in the other."""


class KindDefinition(NamedTuple):
    group: str
    kind: str
    plural: str
    short: str
    versions: tuple[str, ...]  # the first is the one that is stored
    words: str
    spec: type[Shape]
    status: type[Shape] = JobStatus
    scale: str = ""  # the path that `kubectl scale` changes. Empty: there is nothing to scale

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


KINDS: tuple[KindDefinition, ...] = (
    KindDefinition(
        *("kubeflow.org", "TFJob", "tfjobs", "tfj", ("v1",)),
        words="A TensorFlow job, with parameter servers or as one collective.",
        spec=TFJobSpec,
        scale=".spec.tfReplicaSpecs.Worker.replicas",
    ),
    KindDefinition(
        *("kubeflow.org", "PyTorchJob", "pytorchjobs", "ptj", ("v1",)),
        words="A PyTorch job, elastic by torchrun or by starting anew from its checkpoint.",
        spec=PyTorchJobSpec,
        scale=".spec.pytorchReplicaSpecs.Worker.replicas",
    ),
    KindDefinition(
        *("kubeflow.org", "MPIJob", "mpijobs", "mj", ("v1", "v2beta1")),
        words="A launcher and its workers: elastic Horovod, or plain mpirun.",
        spec=MPIJobSpec,
        scale=".spec.mpiReplicaSpecs.Worker.replicas",
    ),
    KindDefinition(
        *("sterna.dev", "ElasticJob", "elasticjobs", "ej", ("v1alpha1",)),
        words="Any program, with so many workers as there is room for.",
        spec=ElasticJobSpec,
        scale=".spec.workers.initial",
    ),
    KindDefinition(
        *("sterna.dev", "Migration", "migrations", "mig", ("v1alpha1",)),
        words="A request to move a job or to empty a node, and the record of what came of it.",
        spec=MigrationSpec,
        status=MigrationStatus,
    ),
)

# What no job can do without, whatever else it says. What one field means for another is the operator's to judge.
REQUIRED: Mapping[type[Shape], tuple[str, ...]] = {
    TFJobSpec: ("tfReplicaSpecs",),
    PyTorchJobSpec: ("pytorchReplicaSpecs",),
    MPIJobSpec: ("mpiReplicaSpecs",),
    Replica: ("template",),
    PodTemplate: ("spec",),
    PodSpec: ("containers",),
    Container: ("name",),
    ContainerPort: ("containerPort",),
    EnvVar: ("name",),
    Condition: ("type", "status"),
}
