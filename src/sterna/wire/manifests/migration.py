"""Migration: a request to move a job, one of its workers, or everything on a node.

It is no job, so it stands apart from the kinds in `reading`: what comes out is a request, and the engine answers in the
object's status. Whether there is such a job, worker or node is the engine's question.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from sterna.model.ids import NodeId
from sterna.model.migrations import MigrationRequest
from sterna.wire.fields import COUNT_MAX
from sterna.wire.manifests.cluster_objects import object_values
from sterna.wire.manifests.documents import VALUES_MAX
from sterna.wire.manifests.findings import Findings
from sterna.wire.manifests.job_shapes import JobShape
from sterna.wire.manifests.pods import Text
from sterna.wire.manifests.shapes import Shape, examined
from sterna.wire.problems import InvalidDocument

API_VERSION, KIND = "sterna.dev/v1alpha1", "Migration"
REASON_MAX = 1024

Ordinal = Annotated[int, Field(ge=0, lt=COUNT_MAX)]
ObjectName = Annotated[Text, Field(min_length=1, max_length=253)]


class JobKind(StrEnum):
    TF_JOB = "TFJob"
    PYTORCH_JOB = "PyTorchJob"
    MPI_JOB = "MPIJob"
    ELASTIC_JOB = "ElasticJob"


class MigrationSpec(Shape):
    job: ObjectName | None = None
    kind: Annotated[JobKind, Field(strict=False)] | None = None
    worker: Ordinal | None = None
    to: ObjectName | None = None
    node: ObjectName | None = None
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""


class Migration(JobShape):
    spec: MigrationSpec = MigrationSpec()


def read_migration(document: Mapping[str, Any]) -> MigrationRequest:
    """The request of an object as the API server has it. `InvalidDocument` with everything that is wrong with it."""
    findings = Findings("")
    value = object_values(document, findings, values_max=VALUES_MAX)
    if not findings.problems and (value.get("apiVersion"), value.get("kind")) != (API_VERSION, KIND):
        findings.wrong(("kind",), value.get("kind"), f"{KIND} of {API_VERSION}")
    shape = None if findings.problems else examined(Migration, value, findings)
    if shape is not None:
        _check(shape.spec, findings)
    if shape is None or findings.problems:
        raise InvalidDocument(findings.problems)
    metadata, spec = value["metadata"], shape.spec
    return MigrationRequest(
        namespace=shape.metadata.namespace,
        name=shape.metadata.called,
        uid=metadata.get("uid") or "",
        generation=metadata.get("generation") or 0,
        job=spec.job,
        kind=spec.kind,
        worker=spec.worker,
        to=None if spec.to is None else NodeId(spec.to),
        node=None if spec.node is None else NodeId(spec.node),
        reason=spec.reason,
    )


def _check(spec: MigrationSpec, findings: Findings) -> None:
    if spec.job is None and spec.node is None:
        findings.wrong(("spec", "job"), None, "the name of a job to move, or a node to empty (spec.node)")
    elif spec.job is not None and spec.node is not None:
        findings.wrong(("spec", "node"), spec.node, "either a job to move or a node to empty: this one has both")
    elif spec.node is not None:
        for key, value in (("kind", spec.kind), ("worker", spec.worker), ("to", spec.to)):
            if value is not None:
                expected = "nothing: where the work of an emptied node goes, the scheduler finds"
                findings.wrong(("spec", key), value, expected)
