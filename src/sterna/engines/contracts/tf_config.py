"""TF_CONFIG: the members of a TensorFlow job, and which of them this process is.

Under the parameter-server contract the list holds every member that may ever come, so it is the same for the job's
whole life and a running process never has to learn that others came or went. Programs must bear absent peers; those
that use parameter servers do.
"""

import json
from collections.abc import Mapping, Sequence

from sterna.engines.contracts.members import Member, of_role, places_of
from sterna.model.errors import InvariantBroken
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Workload

Cluster = dict[str, list[str]]  # addresses by type


def tf_config_environment(workload: Workload, role: Role, ordinal: int, members: Sequence[Member]) -> dict[str, str]:
    _require_everybody(workload, members)
    cluster = _cluster(workload, members)
    details = dict(workload.details)
    kind = workload.template(role).word
    index = [found.ordinal for found in of_role(role, members)].index(ordinal)
    if details.get("chiefInPs") == "true":
        return _with_chief_beside_ps(cluster, kind, index, of_role(Role.PS, members))
    if details.get("enableDynamicWorker") == "true":
        return {"TF_CONFIG": _text(_sparse(cluster, kind, index), kind, index)}
    return {"TF_CONFIG": _text(cluster, kind, index)}


def _cluster(workload: Workload, members: Sequence[Member]) -> Cluster:
    """Addresses by type. The evaluator watches from outside and is not part of it."""
    return {
        template.word: [f"{found.host}:{found.port}" for found in of_role(template.role, members)]
        for template in sorted(workload.roles, key=lambda template: template.word)
        if template.role is not Role.EVALUATOR
    }


def _with_chief_beside_ps(cluster: Cluster, kind: str, index: int, servers: list[Member]) -> dict[str, str]:
    """Each parameter server has the chief as a second process beside it, which the others know as a worker.

    These come first in the list of workers, so a worker's index is shifted by as many as there are servers.
    """
    chiefs = [f"{s.host}:{s.port + 1 if s.chief_port is None else s.chief_port}" for s in servers]
    cluster = {**cluster, "worker": [*chiefs, *cluster.get("worker", [])]}
    if kind == "ps":
        return {"TF_CONFIG": _text(cluster, kind, index), "TF_CONFIG_CHIEF": _text(cluster, "worker", index)}
    return {"TF_CONFIG": _text(cluster, kind, index + len(chiefs) if kind == "worker" else index)}


def _sparse(cluster: Cluster, kind: str, index: int) -> dict[str, object]:
    """For programs of `enableDynamicWorker`: a worker is told of itself and of no other worker."""
    return {**cluster, "worker": {str(index): cluster[kind][index]} if kind == "worker" else {}}


def _text(cluster: Mapping[str, object], kind: str, index: int) -> str:
    config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
    return json.dumps(config, separators=(",", ":"))


def _require_everybody(workload: Workload, members: Sequence[Member]) -> None:
    """A list that grew later would differ from the one that running processes have."""
    if workload.contract is not Contract.PARAMETER_SERVER:
        return
    known = {(found.role, found.ordinal) for found in members}
    missing = [place for place in places_of(workload, range(workload.workers_max)) if place not in known]
    if missing:
        role, ordinal = missing[0]
        raise InvariantBroken(f"job {workload.id}: TF_CONFIG needs the address of {role} {ordinal}, and it has none")
