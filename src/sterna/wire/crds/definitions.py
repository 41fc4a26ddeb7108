"""The kinds as CustomResourceDefinitions: schema, columns, status and scale, in the form that 1.20 and today's take."""

from collections.abc import Iterable
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.wire.crds.kinds import KINDS, REQUIRED, KindDefinition
from sterna.wire.crds.statuses import JobStatus
from sterna.wire.crds.structural import Schema, structural
from sterna.wire.manifests.assembling import NAME, NAME_MAX

Definition = dict[str, Any]

_STATUS = ".status.scheduling"
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def definitions(kinds: Iterable[str] | None = None) -> tuple[Definition, ...]:
    """Those of these kinds, in any case; all where None are named. `InvalidRequest` for one that is not ours."""
    wanted = {name.lower(): name for name in kinds or (kind.kind for kind in KINDS)}
    for name in wanted.keys() - {kind.kind.lower() for kind in KINDS}:
        expected = "one of " + ", ".join(kind.kind for kind in KINDS)
        raise InvalidRequest(field="kind", value=wanted[name], expected=expected)
    return tuple(definition_of(kind) for kind in KINDS if kind.kind.lower() in wanted)


def definition_of(kind: KindDefinition) -> Definition:
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [kind.short],
        "categories": ["sterna"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "labels": {"app.kubernetes.io/name": "sterna"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, version) for version in kind.versions],
        },
    }


def _version(kind: KindDefinition, version: str) -> Definition:
    subresources: dict[str, Any] = {"status": {}}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": kind.scale,
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": version,
        "served": True,
        "storage": version == kind.versions[0],
        "subresources": subresources,
        "additionalPrinterColumns": _JOB_COLUMNS if kind.status is JobStatus else _MIGRATION_COLUMNS,
        "schema": {"openAPIV3Schema": _schema(kind)},
    }


def _schema(kind: KindDefinition) -> Schema:
    metadata: Schema = {"type": "object"}
    if kind.status is JobStatus:  # pods and services are named after it
        metadata["properties"] = {"name": {"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": NAME_MAX}}
    return {
        "description": kind.words,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "spec": structural(kind.spec, REQUIRED),
            "status": structural(kind.status, REQUIRED),
        },
    }


def _column(name: str, path: str, *, words: str, wide: bool = False, type_: str = "string") -> Definition:
    column = {"name": name, "type": type_, "description": words, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


_JOB_COLUMNS = [
    _column("State", f"{_STATUS}.state", words="How it stands"),
    _column("Workers", f"{_STATUS}.workers", words="How many run, and the bounds"),
    _column("GPUs", f"{_STATUS}.gpus", words="GPUs that it holds"),
    _column("Reason", f"{_STATUS}.reason", words="Why it stands so"),
    _AGE,
    _column("Nodes", f"{_STATUS}.nodes", words="Nodes that it is on", wide=True),
    _column("Restarts", f"{_STATUS}.restarts", words="Starts after a failure", wide=True, type_="integer"),
    _column("Migrations", f"{_STATUS}.migrations", words="Moves", wide=True, type_="integer"),
]
_MIGRATION_COLUMNS = [
    _column("Job", ".spec.job", words="The job to move"),
    _column("From", ".status.from", words="The nodes it was on"),
    _column("To", ".status.to", words="The nodes it went to"),
    _column("Phase", ".status.phase", words="How far it has come"),
    _column("Reason", ".status.reason", words="Why it came to that"),
    _column("Downtime", ".status.downtimeSeconds", words="Seconds that training stood still", type_="number"),
    _AGE,
    _column("Worker", ".spec.worker", words="Only this worker", wide=True, type_="integer"),
    _column("Node", ".spec.node", words="The node to empty", wide=True),
    _column("Asked", ".spec.reason", words="Why it was asked for", wide=True),
]
