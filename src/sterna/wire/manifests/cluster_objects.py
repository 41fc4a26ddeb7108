"""Custom resources as the API server stores them, read into the same workloads as the texts people write.

What a server adds (uid, managed fields, status) says nothing about the job. Limits are those of texts. An MPIJob has
two versions and one storage: the API server changes nothing but the word in `apiVersion`, so the content tells which of
the two its author meant.
"""

import json
from collections.abc import Mapping
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.wire.document_limits import BODY_BYTES_MAX, check_document
from sterna.wire.manifests.documents import size_of
from sterna.wire.manifests.findings import Findings
from sterna.wire.manifests.mpijob import MPIJobV1Spec, MPIJobV2Spec
from sterna.wire.problems import Problem

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_V1, _V2 = "kubeflow.org/v1", "kubeflow.org/v2beta1"
_ONLY_V1 = frozenset(MPIJobV1Spec.keys) - frozenset(MPIJobV2Spec.keys)
_ONLY_V2 = frozenset(MPIJobV2Spec.keys) - frozenset(MPIJobV1Spec.keys)


def object_values(document: Mapping[str, Any], findings: Findings, *, values_max: int) -> dict[str, Any]:
    """What the author wrote of it, within the limits; what goes beyond them is among the findings."""
    metadata = document.get("metadata")
    value = {key: child for key, child in document.items() if key != "status"}
    if isinstance(metadata, Mapping):
        value["metadata"] = _own_metadata(metadata)
    else:
        findings.wrong(("metadata",), metadata, "keys with values, a name among them")
    try:
        if (values := size_of(value)) > values_max:
            raise InvalidRequest(field="", value=f"{values} values", expected=f"at most {values_max}")
        check_document(value, name="")
        if (size := len(object_text(value).encode())) > BODY_BYTES_MAX:
            raise InvalidRequest(field="", value=f"{size} bytes", expected=f"at most {BODY_BYTES_MAX} bytes")
    except InvalidRequest as error:
        findings.problems.append(Problem(error.field or "all of it", error.value, error.expected))
    return value


def object_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def version_meant(document: Mapping[str, Any]) -> str:
    """The version of an MPIJob whose words it uses; where it uses those of both or none, the one it was applied in."""
    spec = document.get("spec")
    keys = spec.keys() if isinstance(spec, Mapping) else frozenset()
    first, second = bool(keys & _ONLY_V1), bool(keys & _ONLY_V2)
    if first is not second:
        return _V1 if first else _V2
    return _version_applied(document) or str(document.get("apiVersion"))


def _own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: child for key, child in metadata.items() if key != "managedFields"}
    annotations = own.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        own["annotations"] = {key: text for key, text in annotations.items() if key != LAST_APPLIED}
    return own


def _version_applied(document: Mapping[str, Any]) -> str | None:
    """kubectl keeps what it applied as JSON with sorted keys, so this is how it begins. None: nothing was applied."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, Mapping) else None
    begins = (version for version in (_V1, _V2) if str(text).startswith(f'{{"apiVersion":"{version}"'))
    return next(begins, None)
