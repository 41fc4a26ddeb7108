"""A PyTorchJob made to move: the delete-and-apply form of a migration, for clusters where Sterna does not run.

Pure: a parsed manifest in, another one out; the first is not changed. Talking to a cluster and reading YAML happen
elsewhere.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sterna.training.errors import TrainingError
from sterna.training.migrator.migrator_files import CKPT_PATH, EVERY_S, SIGNAL_PATH

HOSTNAME = "kubernetes.io/hostname"
CONTAINER = "pytorch"  # the operator insists on this name
PRE_STOP = "sterna.training.migrator.prestop"
POST_START = "sterna.training.migrator.poststart"

_GRACE_S = 30  # what Kubernetes grants
_SPARE_S = 5  # between the hook's deadline and the kill
_SAVES_IN_GRACE = 3  # the measured save may have met a faster disk
_EVERY_S = 300  # a node that is lost runs no hook
_OF_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion", "uid")

Body = dict[str, Any]


class UnfitManifest(TrainingError):
    """A manifest that cannot be made to move. Names the field, what it holds and what would do."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field, self.value, self.expected = field, value, expected
        super().__init__(f"{field} is {value!r}; expected {expected}")


class Migration(NamedTuple):
    delete: Body  # names the job that runs now
    apply: Body  # the job as it is to run on the target


def migration(
    job: Mapping[str, Any],
    *,
    to: str | Sequence[str],
    claim: str | None = None,
    mount_path: str = "/mnt",
    save_s: float | None = None,
) -> Migration:
    """Delete `job`, apply it on the node `to` (or one of several). Raises UnfitManifest.

    Every replica is pinned to the target, shares a persistent volume, and knows the paths of checkpoint and signal; the
    master has the hooks. What the manifest has of this already is kept. `claim` names the volume claim for a manifest
    that has none; `save_s` is how long a save takes (the manifest beside the checkpoint says it), and the grace period
    leaves room for it.
    """
    nodes = [to] if isinstance(to, str) else list(to)
    if not nodes or not all(isinstance(node, str) and node for node in nodes):
        raise UnfitManifest("to", to, "the name of a node, or several")
    moved: Body = copy.deepcopy(dict(job))
    if moved.get("kind") != "PyTorchJob":
        raise UnfitManifest("kind", moved.get("kind"), "PyTorchJob")
    metadata = _inner(moved, "metadata", "")
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    if not isinstance(name, str) or not name:
        raise UnfitManifest("metadata.name", name, "the job's name")
    moved.pop("status", None)
    for field in _OF_THE_SERVER:
        metadata.pop(field, None)
    pods = list(_pods(moved))
    claim = claim or next((found for _, pod, _ in pods for found in _claims(pod)), None)
    for role, pod, where in pods:
        _pin(pod, nodes, where)
        trainer = _trainer(pod, where)
        mounted_at = _share_volume(pod, trainer, claim=claim, mount_path=mount_path, where=where)
        directory = f"{mounted_at.rstrip('/')}/{namespace}.{name}"
        _set_environment(trainer, directory, where)
        if role == "Master":
            grace_s = max(_grace_s(save_s), int(pod.get("terminationGracePeriodSeconds") or 0))
            pod["terminationGracePeriodSeconds"] = grace_s
            _set_hooks(trainer, directory, deadline_s=grace_s - _SPARE_S, where=where)
    kind = {"apiVersion": moved.setdefault("apiVersion", "kubeflow.org/v1"), "kind": "PyTorchJob"}
    return Migration({**kind, "metadata": {"name": name, "namespace": namespace}}, moved)


def _grace_s(save_s: float | None) -> int:
    if save_s is None:
        return _GRACE_S
    if not 0 <= save_s < math.inf:
        raise UnfitManifest("save_s", save_s, "a number of seconds, 0 or more")
    return max(_GRACE_S, math.ceil(_SAVES_IN_GRACE * save_s) + 2 * _SPARE_S)


def _pods(job: Body) -> Iterator[tuple[str, Body, str]]:
    where = "spec.pytorchReplicaSpecs"
    replicas = _inner(_inner(job, "spec", ""), "pytorchReplicaSpecs", "spec")
    if "Master" not in replicas:
        raise UnfitManifest(where, sorted(replicas), "a Master, which saves for all")
    for role in sorted(replicas):
        replica = _inner(replicas, role, where)
        replica.setdefault("restartPolicy", "OnFailure")
        template = _inner(replica, "template", f"{where}.{role}")
        yield role, _inner(template, "spec", f"{where}.{role}.template"), f"{where}.{role}.template.spec"


def _pin(pod: Body, nodes: Sequence[str], where: str) -> None:
    """Terms are alternatives, so each of them must name the target. Other ways to name a node give way."""
    pod.pop("nodeName", None)
    if isinstance(pod.get("nodeSelector"), dict):
        pod["nodeSelector"].pop(HOSTNAME, None)
    place, at = pod, where
    for field in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if place.get(field) is None:
            place[field] = {}
        place, at = _inner(place, field, at), f"{at}.{field}"
    terms = _items(place, "nodeSelectorTerms", at)
    if not terms:
        terms.append({})
    for term in terms:
        others = [rule for rule in _items(term, "matchExpressions", at) if rule.get("key") != HOSTNAME]
        term["matchExpressions"] = [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}, *others]


def _trainer(pod: Body, where: str) -> Body:
    containers = _items(pod, "containers", where)
    found = next((one for one in containers if one.get("name") == CONTAINER), None)
    if found is None:
        raise UnfitManifest(f"{where}.containers", [one.get("name") for one in containers], f"one called {CONTAINER}")
    return found


def _claims(pod: Body) -> Iterator[str]:
    for volume in pod.get("volumes") or ():
        claim = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            yield claim["claimName"]


def _share_volume(pod: Body, trainer: Body, *, claim: str | None, mount_path: str, where: str) -> str:
    """Where the trainer sees the persistent volume."""
    volumes, mounts = _items(pod, "volumes", where), _items(trainer, "volumeMounts", where)
    if claim is None:
        raise UnfitManifest(f"{where}.volumes", volumes, "a persistentVolumeClaim, or its name given as `claim`")
    names = [one["name"] for one in volumes if (one.get("persistentVolumeClaim") or {}).get("claimName") == claim]
    if not names:
        names = [claim]
        volumes.append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
    for mount in mounts:
        if mount.get("name") in names and not mount.get("readOnly"):
            return str(mount["mountPath"])
    if any(mount.get("mountPath") == mount_path for mount in mounts):
        raise UnfitManifest(f"{where}.containers.volumeMounts", mount_path, "another mount_path: something is there")
    mounts.append({"name": names[0], "mountPath": mount_path})
    return mount_path


def _set_environment(trainer: Body, directory: str, where: str) -> None:
    variables = _items(trainer, "env", where)
    given = {variable.get("name") for variable in variables}
    wanted = {
        CKPT_PATH: f"{directory}/migration.pth",
        SIGNAL_PATH: f"{directory}/signal",
        EVERY_S: str(_EVERY_S),
    }
    variables.extend({"name": name, "value": value} for name, value in wanted.items() if name not in given)


def _set_hooks(trainer: Body, directory: str, *, deadline_s: int, where: str) -> None:
    if trainer.get("lifecycle") is None:
        trainer["lifecycle"] = {}
    lifecycle = _inner(trainer, "lifecycle", where)
    before, after = str(lifecycle.get("preStop") or ""), str(lifecycle.get("postStart") or "")
    if before and "prestop" not in before:
        raise UnfitManifest(f"{where}.containers.lifecycle.preStop", lifecycle["preStop"], "none but the migrator's")
    python = ["python", "-m"]
    stop = [*python, PRE_STOP, "--deadline-s", str(deadline_s), "--log", f"{directory}/preStop.log"]
    lifecycle["preStop"] = {"exec": {"command": stop}}
    if not after or "postStart.log" in after:  # the user's own may stay: ours only notes the time
        start = [*python, POST_START, "--log", f"{directory}/postStart.log"]
        lifecycle["postStart"] = {"exec": {"command": start}}


def _inner(outer: Body, field: str, where: str) -> Body:
    value = outer.get(field)
    if not isinstance(value, dict):
        raise UnfitManifest(f"{where}.{field}".lstrip("."), value, "a mapping")
    return value


def _items(outer: Body, field: str, where: str) -> list[Body]:
    """The list there, made if there is none."""
    if outer.get(field) is None:
        outer[field] = []
    value = outer[field]
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UnfitManifest(f"{where}.{field}".lstrip("."), value, "a list of mappings")
    return value
