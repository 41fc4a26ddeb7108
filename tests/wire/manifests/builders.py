"""Manifests in a few words: each builder gives a good one, and a test changes what it is about."""

import copy
import json
from typing import Any

from sterna.model.workload import Workload
from sterna.wire.manifests import read_manifests
from sterna.wire.problems import InvalidDocument

Manifest = dict[str, Any]


def pod(name: str = "main", **container: Any) -> Manifest:
    return {"spec": {"containers": [{"name": name, "image": "train", "command": ["python", "train.py"], **container}]}}


def replica(name: str, replicas: Any = None, **container: Any) -> Manifest:
    return {"template": pod(name, **container), **({} if replicas is None else {"replicas": replicas})}


def tfjob(types: Manifest | None = None, /, **spec: Any) -> Manifest:
    """One parameter server and two workers, unless `types` says otherwise."""
    types = {"PS": replica("tensorflow"), "Worker": replica("tensorflow", 2)} if types is None else types
    return _job("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": types, **spec})


def pytorchjob(types: Manifest | None = None, **spec: Any) -> Manifest:
    types = {"Worker": replica("pytorch", 2)} if types is None else types
    return _job("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": types, **spec})


def mpijob(env: dict[str, str] | None = None, *, version: str = "v1", workers: int | None = 2, **spec: Any) -> Manifest:
    """A launcher with this environment, and workers that leave the command to their image."""
    launcher = replica("launcher", env=[{"name": name, "value": value} for name, value in (env or {}).items()])
    types = {"Launcher": launcher}
    if workers is not None:
        types["Worker"] = replica("worker", workers)
        del types["Worker"]["template"]["spec"]["containers"][0]["command"]
    return _job(f"kubeflow.org/{version}", "MPIJob", {"mpiReplicaSpecs": types, **spec})


def elasticjob(**spec: Any) -> Manifest:
    return _job("sterna.dev/v1alpha1", "ElasticJob", {"command": ["python", "train.py"], **spec})


def with_container(name: str = "pytorch", **container: Any) -> Manifest:
    """A PyTorchJob whose worker has this container."""
    return pytorchjob({"Worker": replica(name, **container)})


def with_pod(**spec: Any) -> Manifest:
    """A PyTorchJob whose worker's pod has these fields."""
    job = pytorchjob()
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"].update(spec)
    return job


def annotated(job: Manifest, **annotations: Any) -> Manifest:
    """`min_workers=1` is the annotation sterna.dev/min-workers: "1"."""
    job = copy.deepcopy(job)
    pairs = {f"sterna.dev/{key.replace('_', '-')}": str(value) for key, value in annotations.items()}
    job["metadata"]["annotations"] = pairs
    return job


def workload(job: Manifest) -> Workload:
    (document,) = read_manifests(json.dumps(job))
    document.workload.job_spec(submitted_s=0.0)  # whatever is read, the scheduling core takes
    return document.workload


def notes(job: Manifest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    (document,) = read_manifests(json.dumps(job))
    return document.warnings, document.aside


def problems(*jobs: Manifest) -> dict[str, tuple[object, str]]:
    """Path to value and what would do. Empty: nothing is wrong."""
    try:
        read_manifests("\n---\n".join(json.dumps(job) for job in jobs))
    except InvalidDocument as error:
        return {
            problem.path.removeprefix("document 1: "): (problem.value, problem.expected) for problem in error.problems
        }
    return {}


def _job(version: str, kind: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "job1"}, "spec": copy.deepcopy(spec)}
