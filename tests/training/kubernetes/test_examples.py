"""The manifests in examples/kubernetes are read without a complaint and say what their readers are told they say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.model.ids import NodeId
from sterna.model.workload import Contract
from sterna.wire.manifests import read_manifests, read_migration

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "kubernetes"
JOBS = {
    "elasticjob-numpy.yaml": ("ElasticJob", Contract.RESTART, 1, 4),
    "pytorchjob-restart.yaml": ("PyTorchJob", Contract.RESTART, 1, 3),
    "pytorchjob-torchrun.yaml": ("PyTorchJob", Contract.TORCHRUN, 1, 3),
    "tfjob-ps.yaml": ("TFJob", Contract.PARAMETER_SERVER, 1, 4),
    "mpijob-discovery.yaml": ("MPIJob", Contract.DISCOVERY, 1, 3),
}


def pod_specs(document: Any) -> list[dict[str, Any]]:
    """Wherever a pod is described in it."""
    if isinstance(document, list):
        return [spec for item in document for spec in pod_specs(item)]
    if not isinstance(document, dict):
        return []
    own = [document] if "containers" in document else []
    return own + [spec for value in document.values() for spec in pod_specs(value)]


def test_every_manifest_is_looked_at():
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == {*JOBS, "migration.yaml"}


@pytest.mark.parametrize(("name", "expected"), JOBS.items(), ids=JOBS)
def test_a_manifest_is_read_without_a_complaint(name, expected):
    (document,) = read_manifests((EXAMPLES / name).read_text())
    workload = document.workload
    assert (workload.kind, workload.contract, workload.workers_min, workload.workers_max) == expected
    assert document.warnings == ()
    assert dict(workload.annotations)["sterna.dev/checkpoint-dir"] == "/checkpoints"


@pytest.mark.parametrize("name", JOBS)
def test_what_is_trained_can_be_saved_in_time(name):
    """The container mounts the volume that the annotation names, and has a grace period that it names itself."""
    specs = pod_specs(yaml.safe_load((EXAMPLES / name).read_text()))
    assert specs
    for spec in specs:
        (container,) = spec["containers"]
        assert spec["terminationGracePeriodSeconds"] > 0
        mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        if mounts:
            assert mounts == {"checkpoints": "/checkpoints"}
            assert [volume["name"] for volume in spec["volumes"]] == ["checkpoints"]
            assert spec["terminationGracePeriodSeconds"] >= 30 or container["name"] == "worker"


@pytest.mark.parametrize("name", JOBS)
def test_programs_and_hooks_of_the_examples_exist(name):
    root = EXAMPLES.parents[1]
    for spec in pod_specs(yaml.safe_load((EXAMPLES / name).read_text())):
        (container,) = spec["containers"]
        for word in container["command"]:
            assert not word.startswith("examples/") or (root / word).exists(), word
        hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        assert hook in (None, ["python", "-m", "sterna.training.prestop"])


def test_migrations_are_requests_that_can_be_read():
    one, all_of_a_node = (
        read_migration(document) for document in yaml.safe_load_all((EXAMPLES / "migration.yaml").read_text())
    )
    assert (one.job, one.worker, one.to) == ("pytorch-digits", 1, None)
    assert (all_of_a_node.job, all_of_a_node.node) == (None, NodeId("node-a"))
