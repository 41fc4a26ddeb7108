"""Pod templates as a job's owner wrote them, whole, by the role that they are for.

The manifest reader takes from a template what scheduling needs; the pod itself is made from all of it, so it is read
here once more, and only when it is asked for: most looks at a job make no pod.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.model.jobs import Role
from sterna.model.workload import Workload

_REPLICAS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
_OF_CONTAINER = ("image", "command", "args", "env", "workingDir", "resources", "lifecycle")
_OF_POD = ("terminationGracePeriodSeconds", "nodeSelector", "tolerations", "restartPolicy")


class Templates(Mapping[Role, Body]):
    """Read on first use."""

    def __init__(self, spec: msgspec.Raw, workload: Workload) -> None:
        self._spec = spec
        self._workload = workload
        self._found: dict[Role, Body] | None = None

    def __getitem__(self, role: Role) -> Body:
        return self._read()[role]

    def __iter__(self) -> Iterator[Role]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._workload.roles)

    def _read(self) -> dict[Role, Body]:
        if self._found is None:
            self._found = templates_of(msgspec.json.decode(self._spec), self._workload)
        return self._found


def templates_of(spec: Mapping[str, Any], workload: Workload) -> dict[Role, Body]:
    if workload.kind == "ElasticJob":
        bodies = {name.lower(): body for name, body in (spec.get("roles") or {}).items() if body}
        found = {template.role: _template(bodies.get(template.role.value, {})) for template in workload.roles}
        found[Role.WORKER] = _template(spec)
        return found
    replicas = {name.lower(): body for name, body in (spec.get(_REPLICAS[workload.kind]) or {}).items() if body}
    return {template.role: _template(replicas[template.word]) for template in workload.roles}


def _template(body: Mapping[str, Any]) -> Body:
    """As it is; or the fields of its one container, with the pod around it."""
    written = body.get("template")
    if isinstance(written, dict):
        return written
    container = {"name": "main", **{key: body[key] for key in _OF_CONTAINER if body.get(key) is not None}}
    return {"spec": {"containers": [container], **{key: body[key] for key in _OF_POD if body.get(key) is not None}}}
