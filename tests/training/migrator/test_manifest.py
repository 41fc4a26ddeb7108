"""A PyTorchJob that is deleted and applied elsewhere: pinned to the target, with hooks, paths and a shared volume."""

import copy
import math
from typing import Any

import pytest
import yaml

from sterna.training.migrator.manifest import Migration, UnfitManifest, migration
from sterna.wire.manifests import read_manifests
from tests.training.migrator.pytorchjob_schema import PyTorchJob

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: mnist-launch
  namespace: vision
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        metadata:
          annotations:
            sidecar.istio.io/inject: "false"
        spec:
          hostIPC: true
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - key: kubernetes.io/hostname
                    operator: In
                    values: [gpu-48]
          volumes:
          - name: ddp-pvc
            persistentVolumeClaim:
              claimName: ddp-pvc
          containers:
          - name: pytorch
            image: example/mnist
            command: [python, train.py]
            lifecycle:
              postStart:
                exec:
                  command: [sh, -c, "echo start: $(date) > /mnt/postStart.log"]
              preStop:
                exec:
                  command: [sh, -c, "exec > /mnt/preStop.log; python -u prestop.py"]
            volumeMounts:
            - name: ddp-pvc
              mountPath: /mnt
            resources:
              limits:
                nvidia.com/gpu: 1
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: example/mnist
            command: [python, train.py]
          - name: side
            image: example/side
"""


def job(text: str = JOB) -> Any:
    return yaml.safe_load(text)


def pod(document: Any, role: str = "Master") -> Any:
    return document["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]


def moved(document: Any, **how: Any) -> Migration:
    """With the result checked against the schema, and against the project's own reader of manifests."""
    before = copy.deepcopy(document)
    result = migration(document, **{"to": "gpu-49", **how})
    assert document == before, "what was given is not changed"
    PyTorchJob.model_validate(result.apply)
    (read,) = read_manifests(yaml.safe_dump(result.apply))
    assert read.workload.kind == "PyTorchJob"
    return result


def test_voda_48_every_replica_is_pinned_to_the_target():
    result = moved(job())
    for role in ("Master", "Worker"):
        (term,) = pod(result.apply, role)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-49"]}]


def test_voda_48_what_is_deleted_is_what_runs_now():
    assert moved(job()).delete == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "mnist-launch", "namespace": "vision"},
    }


def test_voda_48_the_master_has_the_hooks_and_time_for_them():
    result = moved(job(), save_s=12.4)
    master = pod(result.apply)
    (trainer,) = master["containers"]
    assert master["terminationGracePeriodSeconds"] == math.ceil(3 * 12.4) + 10
    assert trainer["lifecycle"]["preStop"]["exec"]["command"] == [
        "python", "-m", "sterna.training.migrator.prestop",
        "--deadline-s", "43", "--log", "/mnt/vision.mnist-launch/preStop.log",
    ]  # fmt: skip
    assert trainer["lifecycle"]["postStart"]["exec"]["command"][2:] == [
        "sterna.training.migrator.poststart", "--log", "/mnt/vision.mnist-launch/postStart.log",
    ]  # fmt: skip
    worker = next(one for one in pod(result.apply, "Worker")["containers"] if one["name"] == "pytorch")
    assert "lifecycle" not in worker
    assert result.apply["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3


def test_voda_48_the_hook_of_the_manifest_is_one_that_can_be_run():
    from sterna.training.migrator import poststart, prestop

    lifecycle = pod(moved(job()).apply)["containers"][0]["lifecycle"]
    modules = [lifecycle[hook]["exec"]["command"][2] for hook in ("preStop", "postStart")]
    assert modules == [prestop.__name__, poststart.__name__]


def test_voda_48_every_replica_shares_volume_and_paths_which_name_the_job():
    result = moved(job())
    for role in ("Master", "Worker"):
        spec = pod(result.apply, role)
        assert [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]] == ["ddp-pvc"]
        trainer = next(one for one in spec["containers"] if one["name"] == "pytorch")
        assert trainer["volumeMounts"] == [{"name": "ddp-pvc", "mountPath": "/mnt"}]
        assert {one["name"]: one["value"] for one in trainer["env"]} == {
            "MIGRATION_CKPT_PATH": "/mnt/vision.mnist-launch/migration.pth",
            "MIGRATION_SIGNAL_PATH": "/mnt/vision.mnist-launch/signal",
            "MIGRATION_EVERY_S": "300",
        }
    assert "env" not in pod(result.apply, "Worker")["containers"][1]


def test_voda_48_moving_again_changes_the_node_and_nothing_else():
    once = moved(job(), save_s=2).apply
    twice = moved(once, to="gpu-50", save_s=2).apply
    assert yaml.safe_dump(twice) == yaml.safe_dump(once).replace("gpu-49", "gpu-50")


def test_voda_48_what_the_owner_chose_stays():
    document = job()
    master = pod(document)
    master["terminationGracePeriodSeconds"] = 600
    trainer = master["containers"][0]
    trainer["env"] = [{"name": "MIGRATION_CKPT_PATH", "value": "/mnt/mine.pth"}]
    trainer["lifecycle"] = {"postStart": {"exec": {"command": ["my-own"]}}}
    master["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["gpu-49"]}]},
    ]
    master["nodeSelector"] = {"kubernetes.io/hostname": "gpu-48", "disk": "fast"}
    after = pod(moved(document, save_s=1).apply)
    assert after["terminationGracePeriodSeconds"] == 600
    assert after["containers"][0]["env"][0] == {"name": "MIGRATION_CKPT_PATH", "value": "/mnt/mine.pth"}
    assert after["containers"][0]["lifecycle"]["postStart"] == {"exec": {"command": ["my-own"]}}
    assert after["nodeSelector"] == {"disk": "fast"}
    terms = after["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    target = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-49"]}
    assert [term["matchExpressions"] for term in terms] == [[target, {"key": "gpu", "operator": "Exists"}], [target]]


def test_voda_48_what_the_server_added_is_not_applied_again():
    document = job()
    document["status"] = {"conditions": []}
    document["metadata"] |= {"uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "now"}
    document["metadata"]["labels"] = {"team": "vision"}
    after = moved(document).apply
    assert "status" not in after
    assert after["metadata"] == {"name": "mnist-launch", "namespace": "vision", "labels": {"team": "vision"}}


def test_voda_48_a_manifest_without_anything_gets_everything():
    document = job()
    for role in ("Master", "Worker"):
        spec = pod(document, role)
        spec.pop("volumes", None)
        spec.pop("affinity", None)
        spec["containers"] = [{"name": "pytorch", "image": "example/mnist"}]
    document["metadata"].pop("namespace")
    result = moved(document, to=["gpu-49", "gpu-50"], claim="shared", mount_path="/data")
    for role in ("Master", "Worker"):
        spec = pod(result.apply, role)
        assert spec["volumes"] == [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]
        assert spec["containers"][0]["env"][0]["value"] == "/data/default.mnist-launch/migration.pth"
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["gpu-49", "gpu-50"]


def _set(path: str, value: Any):
    def change(document):
        *outer, last = path.split(".")
        for name in outer:
            document = document[int(name) if name.isdigit() else name]
        document[int(last) if last.isdigit() else last] = value

    return change


MASTER = "spec.pytorchReplicaSpecs.Master.template.spec"


@pytest.mark.parametrize(
    ("change", "how", "field"),
    [
        pytest.param(_set("kind", "TFJob"), {}, "kind", id="another kind"),
        pytest.param(_set("metadata.name", ""), {}, "metadata.name", id="no name"),
        pytest.param(_set("metadata", []), {}, "metadata", id="metadata that is a list"),
        pytest.param(_set("spec.pytorchReplicaSpecs", {"Worker": {}}), {}, "spec.pytorchReplicaSpecs", id="no master"),
        pytest.param(_set("spec", "later"), {}, "spec", id="no spec"),
        pytest.param(_set(f"{MASTER}.containers.0.name", "main"), {}, f"{MASTER}.containers", id="no pytorch"),
        pytest.param(_set(f"{MASTER}.volumes", []), {}, f"{MASTER}.volumes", id="no volume claim"),
        pytest.param(_set(f"{MASTER}.volumes", [3]), {}, f"{MASTER}.volumes", id="volumes that are numbers"),
        pytest.param(
            _set(f"{MASTER}.containers.0.lifecycle.preStop", {"exec": {"command": ["drain"]}}),
            {},
            f"{MASTER}.containers.lifecycle.preStop",
            id="a preStop hook of somebody else",
        ),
        pytest.param(_set(f"{MASTER}.affinity", "near"), {}, f"{MASTER}.affinity", id="affinity that is a text"),
        pytest.param(lambda d: None, {"to": ""}, "to", id="no target"),
        pytest.param(lambda d: None, {"to": []}, "to", id="no targets"),
        pytest.param(lambda d: None, {"save_s": -1.0}, "save_s", id="a save that takes less than no time"),
        pytest.param(
            _set(f"{MASTER}.containers.0.volumeMounts", [{"name": "other", "mountPath": "/mnt"}]),
            {},
            f"{MASTER}.containers.volumeMounts",
            id="something else is mounted there",
        ),
    ],
)
def test_voda_48_a_manifest_that_cannot_be_moved_is_refused_by_field(change, how, field):
    document = job()
    change(document)
    with pytest.raises(UnfitManifest) as refused:
        migration(document, **{"to": "gpu-49", **how})
    assert refused.value.field == field
    assert refused.value.expected in str(refused.value)
