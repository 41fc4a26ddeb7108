"""From what the manifest says to what is executed: `$(NAME)` is filled in, and fields of the pod get their values.

The rules are Kubernetes': a name that nobody defines stays as it is written, and `$$` is a dollar sign.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sterna.engines.contracts.naming import labels_of, worker_name
from sterna.model.jobs import Worker
from sterna.model.workload import Program, Workload

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    argv: tuple[str, ...]
    env: dict[str, str]  # complete, but for what the machine itself gives (PATH, HOME)
    post_start: tuple[str, ...] = ()
    pre_stop: tuple[str, ...] = ()


def launch_of(
    program: Program,
    *,
    given: Mapping[str, str],
    fields: Mapping[str, str],
    moved: Mapping[str, str] | None = None,
) -> Launch:
    """`given` is what the engine sets (contract and STERNA_*); it wins, and the manifest's values may refer to it.

    `fields` are the pod's, as `pod_fields` gives them. `moved` are directories that lie elsewhere here: commands in
    manifests name /etc/mpi, which a process on somebody's machine cannot have.
    """
    env = dict(given)
    env |= {name: fields.get(path, "") for name, path in program.env_fields if name not in given}
    for name, value in program.env:
        if name not in given:
            env[name] = expanded(value, env)
    return Launch(
        argv=tuple(_moved(expanded(word, env), moved) for word in program.argv),
        env={name: _moved(value, moved) for name, value in env.items()},
        post_start=tuple(_moved(word, moved) for word in program.post_start),  # hooks are not expanded, as in a pod
        pre_stop=tuple(_moved(word, moved) for word in program.pre_stop),
    )


def expanded(text: str, env: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: "$" if found[1] else env.get(found[2], found[0]), text)


def pod_fields(workload: Workload, worker: Worker, *, uid: str, host_ip: str, pod_ip: str) -> dict[str, str]:
    """What `valueFrom.fieldRef` may ask for."""
    labels = {**dict(workload.labels), **labels_of(workload, worker.role, worker.ordinal, slot=uid)}
    return {
        "metadata.name": worker_name(workload, worker.role, worker.ordinal),
        "metadata.namespace": workload.namespace,
        "metadata.uid": uid,
        "spec.nodeName": worker.node,
        "spec.serviceAccountName": "default",
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        **{f"metadata.labels['{key}']": value for key, value in labels.items()},
        **{f"metadata.annotations['{key}']": value for key, value in workload.annotations},
    }


def _moved(text: str, moved: Mapping[str, str] | None) -> str:
    for before, now in (moved or {}).items():
        text = text.replace(before, now)
    return text
