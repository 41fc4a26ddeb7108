"""The door for manifests: text or stored objects in, workloads out, or everything that is wrong with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sterna.model.errors import InvalidRequest
from sterna.model.workload import Workload
from sterna.wire.manifests.cluster_objects import object_text, object_values, version_meant
from sterna.wire.manifests.documents import VALUES_IN_ALL_MAX, VALUES_MAX, Cut, cut, size_of
from sterna.wire.manifests.elasticjob import ElasticJob, workload_of_elasticjob
from sterna.wire.manifests.findings import PROBLEMS_MAX, Findings
from sterna.wire.manifests.mpijob import MPIJobV1, MPIJobV2, workload_of_mpijob
from sterna.wire.manifests.pytorchjob import PyTorchJob, workload_of_pytorchjob
from sterna.wire.manifests.shapes import Shape, examined, meant
from sterna.wire.manifests.tfjob import TFJob, workload_of_tfjob
from sterna.wire.manifests.unhonoured_fields import say_unhonoured
from sterna.wire.problems import InvalidDocument, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDocument:
    index: int  # from 1, in its text
    text: str  # verbatim
    workload: Workload
    warnings: tuple[str, ...] = ()  # what is read and not used, whatever the engine
    aside: tuple[str, ...] = ()  # what the process runner leaves out, and Kubernetes does


class Kind(NamedTuple):
    shape: type[Shape]
    convert: Callable[[Any, Findings], Workload | None]


KINDS: Mapping[tuple[str, str], Kind] = {
    ("kubeflow.org/v1", "TFJob"): Kind(TFJob, workload_of_tfjob),
    ("kubeflow.org/v1", "PyTorchJob"): Kind(PyTorchJob, workload_of_pytorchjob),
    ("kubeflow.org/v1", "MPIJob"): Kind(MPIJobV1, workload_of_mpijob),
    ("kubeflow.org/v2beta1", "MPIJob"): Kind(MPIJobV2, workload_of_mpijob),
    ("sterna.dev/v1alpha1", "ElasticJob"): Kind(ElasticJob, workload_of_elasticjob),
}


def read_manifests(text: str | bytes) -> tuple[ManifestDocument, ...]:
    """All jobs of a YAML text, or of a JSON one. InvalidDocument tells the problems of all its documents."""
    problems: list[Problem] = []
    documents: list[ManifestDocument] = []
    values_left = VALUES_IN_ALL_MAX
    for part in cut(text):
        findings = Findings(part.name)
        value = _value(part, findings, values_max=min(values_left, VALUES_MAX))
        values_left -= size_of(value)
        workload = _workload(value, findings)
        if workload is not None:
            taken = next((other.index for other in documents if other.workload.id == workload.id), None)
            if taken is not None and not workload.name.endswith("-"):
                findings.wrong(("metadata", "name"), workload.name, f"another name: document {taken} has this one")
            documents.append(
                ManifestDocument(
                    index=part.number,
                    text=part.body,
                    workload=workload,
                    warnings=tuple(findings.warnings),
                    aside=tuple(findings.aside),
                )
            )
        problems += findings.problems
        if len(problems) >= PROBLEMS_MAX:
            break
    if problems:
        raise InvalidDocument(problems)
    return tuple(documents)


def workload_of_object(document: Mapping[str, Any]) -> ManifestDocument:
    """A job as the API server has it. `InvalidDocument` with all its problems, whose paths begin at the object.

    Its text is what its author wrote of it, as JSON.
    """
    findings = Findings("", for_pods=True)
    value = object_values(document, findings, values_max=VALUES_MAX)
    if value.get("kind") == "MPIJob":
        value["apiVersion"] = version_meant(document)
    workload = _workload(value, findings)
    if workload is None or findings.problems:
        raise InvalidDocument(findings.problems)
    return ManifestDocument(
        index=1,
        text=object_text(value),
        workload=workload,
        warnings=tuple(findings.warnings),
        aside=tuple(findings.aside),
    )


def _value(part: Cut, findings: Findings, *, values_max: int) -> Any:
    """What the document says; an empty list if it cannot be read at all."""
    try:
        return part.value(values_max=values_max)
    except InvalidRequest as error:
        where = error.field.removeprefix(part.name).removeprefix(": ")
        findings.problems.append(Problem(f"{part.name}: {where or 'all of it'}", error.value, error.expected))
        return []


def _workload(value: Any, findings: Findings) -> Workload | None:
    if findings.problems:
        return None
    kind = _kind(value, findings)
    job = None if kind is None else examined(kind.shape, value, findings)
    if kind is None or job is None:
        return None
    say_unhonoured(job, findings)
    return kind.convert(job, findings)


def _kind(value: Any, findings: Findings) -> Kind | None:
    if not isinstance(value, dict):
        findings.wrong((), value, "keys with values: apiVersion, kind, metadata, spec")
        return None
    version, name = value.get("apiVersion"), value.get("kind")
    if isinstance(version, str) and isinstance(name, str) and (version, name) in KINDS:
        return KINDS[version, name]
    names = sorted({known for _, known in KINDS})
    versions = sorted(known for known, kind in KINDS if kind == name)
    if versions:
        findings.wrong(("apiVersion",), version, f"{' or '.join(versions)} for a {name}")
    else:
        likely = meant(name, tuple(names), likeness=0.6) if isinstance(name, str) else None
        findings.wrong(("kind",), name, f"one of {', '.join(names)}" + (f"; did you mean {likely}?" if likely else ""))
    return None
