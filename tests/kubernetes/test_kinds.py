"""Our kinds on a real API server: what it takes, what it refuses and in which words, and what it keeps apart."""

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.model.nodes import Toleration
from sterna.wire.manifests import read_manifests, read_migration, workload_of_object
from sterna.wire.problems import InvalidDocument
from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import ApiError, Body
from tests.wire.manifests.builders import Manifest, elasticjob, mpijob, pytorchjob, replica, tfjob

CORPUS = sorted((Path(__file__).parents[1] / "wire" / "manifests" / "corpus").glob("*.yaml"))
SHIPPED = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
PLURALS = {
    "TFJob": "tfjobs",
    "PyTorchJob": "pytorchjobs",
    "MPIJob": "mpijobs",
    "ElasticJob": "elasticjobs",
    "Migration": "migrations",
}
WORKER = replica("tensorflow", 2)
FOR_PROCESSES = ("elasticjob-short", "elasticjob-roles", "numpy")  # they have no image


def path_of(body: Manifest, namespace: str, *, version: str = "") -> str:
    group = body["apiVersion"] if not version else f"{body['apiVersion'].partition('/')[0]}/{version}"
    return f"/apis/{group}/namespaces/{namespace}/{PLURALS[body['kind']]}"


def created(kinds: ControlPlane, namespace: str, body: Manifest, **changes: Any) -> Body:
    body = copy.deepcopy(body) | changes
    body["metadata"].pop("namespace", None)
    return kinds.api().create(path_of(body, namespace), body)


def migration(**spec: Any) -> Manifest:
    return {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration", "metadata": {"name": "move"}, "spec": spec}


def jobs_in(text: str) -> list[Manifest]:
    return [body for body in yaml.safe_load_all(text) if body and body["kind"] in PLURALS]


def test_every_definition_is_established_and_structural(kinds: ControlPlane):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in kinds.api().items(path):
        conditions = {one["type"]: one["status"] for one in definition["status"]["conditions"]}
        assert conditions.get("Established") == "True"
        assert "NonStructuralSchema" not in conditions, definition["status"]["conditions"]


@pytest.mark.parametrize("path", [*CORPUS, *SHIPPED], ids=lambda path: path.stem)
def test_what_can_be_read_can_be_stored_and_means_the_same_when_it_comes_back(
    kinds: ControlPlane, namespace: str, path: Path
):
    bodies = jobs_in(path.read_text(encoding="utf-8"))
    assert bodies
    for body in bodies:
        stored = created(kinds, namespace, body)
        assert stored["spec"] == body["spec"], "nothing was dropped or filled in"
        body["metadata"]["namespace"] = namespace
        if path.stem in FOR_PROCESSES:
            with pytest.raises(InvalidDocument, match="an image: Kubernetes needs one"):
                workload_of_object(stored)
        elif body["kind"] == "Migration":
            request = replace(read_migration(stored), uid="", generation=0)
            assert request == read_migration(body)
        else:
            (document,) = read_manifests(yaml.safe_dump(body))
            assert workload_of_object(stored).workload == document.workload


def without_main() -> Manifest:
    return tfjob({"Worker": replica("other", 2)})


@pytest.mark.parametrize(
    ("job", "field"),
    [
        pytest.param(tfjob({}), "spec.tfReplicaSpecs", id="no replica spec"),
        pytest.param({**tfjob(), "spec": {}}, "spec.tfReplicaSpecs", id="no map of them"),
        pytest.param(tfjob({"Worker": None}), "spec.tfReplicaSpecs", id="a replica spec that is null"),
        pytest.param(
            tfjob({"Worker": {"template": {"spec": {"containers": []}}}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers",
            id="zero containers",
        ),
        pytest.param(tfjob({"Worker": {}}), "spec.tfReplicaSpecs.Worker.template", id="no template"),
        pytest.param(tfjob({"Worker": replica("tensorflow", 0)}), "spec.tfReplicaSpecs.Worker.replicas", id="0"),
        pytest.param(tfjob({"Worker": replica("tensorflow", "2")}), "spec.tfReplicaSpecs.Worker.replicas", id="text"),
        pytest.param(tfjob(**{"min-instances": 0}), "spec.min-instances", id="a minimum of nothing"),
        pytest.param(tfjob(**{"max-instances": -1}), "spec.max-instances", id="a maximum below nothing"),
        pytest.param(tfjob(cleanPodPolicy="Some"), "spec.cleanPodPolicy", id="a word nobody knows"),
        pytest.param(tfjob(runPolicy={"backoffLimit": -1}), "spec.runPolicy.backoffLimit", id="in runPolicy"),
        pytest.param(tfjob(successPolicy="Most"), "spec.successPolicy", id="whose success"),
        pytest.param(
            tfjob({"Worker": {**WORKER, "restartPolicy": "Sometimes"}}),
            "spec.tfReplicaSpecs.Worker.restartPolicy",
            id="a restart policy nobody knows",
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow", resources={"limits": {"cpu": "-1"}})}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers.resources.limits.cpu",
            id="less than no CPU",
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow", env=[{"name": "N", "value": 3}])}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers.env.value",
            id="a bare number in the environment",
        ),
        pytest.param({**tfjob(), "metadata": {"name": "1job"}}, "metadata.name", id="a name no service can have"),
        pytest.param({**tfjob(), "metadata": {"name": "a.b"}}, "metadata.name", id="a dot in a name"),
        pytest.param(pytorchjob(nprocPerNode=0), "spec.nprocPerNode", id="no processes"),
        pytest.param(pytorchjob(nprocPerNode="many"), "spec.nprocPerNode", id="so many processes"),
        pytest.param(pytorchjob(elasticPolicy={"rdzvBackend": "zk"}), "spec.elasticPolicy.rdzvBackend", id="backend"),
        pytest.param(mpijob(slotsPerWorker=0), "spec.slotsPerWorker", id="no slots"),
        pytest.param(mpijob(version="v2beta1", mpiImplementation="Own"), "spec.mpiImplementation", id="another MPI"),
        pytest.param(elasticjob(epochs=0), "spec.epochs", id="no epochs"),
        pytest.param(elasticjob(workers={"min": 0}), "spec.workers.min", id="no workers"),
        pytest.param(elasticjob(contract="none"), "spec.contract", id="no such contract"),
        pytest.param(elasticjob(port=70_000), "spec.port", id="a port beyond ports"),
        pytest.param(migration(job="a", worker=-1), "spec.worker", id="a worker that cannot be"),
        pytest.param(migration(job="a", kind="Job"), "spec.kind", id="a kind that is not ours"),
    ],
)
def test_dragon_1_what_can_never_run_is_not_stored_and_the_field_is_named(
    kinds: ControlPlane, namespace: str, job: Manifest, field: str
):
    with pytest.raises(ApiError) as refused:
        created(kinds, namespace, job)
    assert refused.value.status == 422
    told = re.sub(r"\[\d+\]", "", refused.value.message)  # newer API servers say which item of a list it is
    assert f"{field}:" in told or f"{field} in body" in told


@pytest.mark.parametrize(
    ("job", "field"),
    [
        pytest.param(without_main(), "spec.tfReplicaSpecs.Worker.template.spec.containers[0].name", id="no tensorflow"),
        pytest.param(
            tfjob({"Worker": replica("tensorflow", image="")}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image",
            id="an empty image",
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "Chief": WORKER | {"replicas": 1}, "Master": WORKER | {"replicas": 1}}),
            "spec.tfReplicaSpecs.Master",
            id="a chief and a master",
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "Evaluator": WORKER}),
            "spec.tfReplicaSpecs.Evaluator.replicas",
            id="two evaluators",
        ),
        pytest.param(tfjob({"PS": WORKER}), "spec.tfReplicaSpecs", id="servers alone"),
        pytest.param(tfjob({"Wroker": WORKER}), "spec.tfReplicaSpecs.Wroker", id="a role nobody knows"),
        pytest.param(tfjob(**{"min-instances": 3}), "spec.min-instances", id="a minimum above the replicas"),
        pytest.param(tfjob(**{"max-instances": 1}), "spec.max-instances", id="a maximum below the replicas"),
    ],
)
def test_dragon_1_what_one_field_means_for_another_is_found_by_the_reader(
    kinds: ControlPlane, namespace: str, job: Manifest, field: str
):
    stored = created(kinds, namespace, job)
    with pytest.raises(InvalidDocument) as caught:
        workload_of_object(stored)
    assert field in [problem.path for problem in caught.value.problems]


def test_dragon_1_roles_in_any_case_are_stored_as_written_and_read_as_meant(kinds: ControlPlane, namespace: str):
    stored = created(kinds, namespace, tfjob({"ps": replica("tensorflow"), "WORKER": WORKER}))
    assert stored["spec"]["tfReplicaSpecs"].keys() == {"ps", "WORKER"}
    assert [role.word for role in workload_of_object(stored).workload.roles] == ["ps", "worker"]


def test_dragon_2_nothing_is_filled_in_by_the_server_so_that_the_reader_may(kinds: ControlPlane, namespace: str):
    minimal = tfjob({"Worker": replica("tensorflow")})
    stored = created(kinds, namespace, minimal)
    assert stored["spec"] == minimal["spec"]
    job = workload_of_object(stored).workload
    worker = job.roles[-1]
    assert (worker.replicas, worker.restart_policy, job.run_policy.clean_up) == (1, "Never", "Running")
    assert (job.workers_min, job.workers_initial, job.workers_max) == (1, 1, 1)


def test_everything_that_a_pod_may_have_is_kept(kinds: ControlPlane, namespace: str):
    spec: Manifest = {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirst",
        "nodeSelector": {"node-role.kubernetes.io/worker": ""},
        "tolerations": [{"operator": "Exists", "effect": "", "tolerationSeconds": 3}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "initContainers": [{"name": "wait", "image": "busybox", "command": ["true"]}],
        "aFieldOfTheFuture": {"x": [1, {"y": None}]},
        "containers": [
            {
                "name": "tensorflow",
                "image": "x",
                "resources": {"limits": {"cpu": 0.5, "memory": "1Gi", "rdma/hca": 1}, "claims": []},
                "args": ["", "x"],
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}},
                    {"name": "B", "value": ""},
                ],
                "ports": [{"containerPort": 2222, "protocol": "TCP"}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm", "subPathExpr": "$(A)"}],
                "startupProbe": {"exec": {"command": ["true"]}},
            },
            {"name": "beside", "image": "y", "securityContext": {"runAsUser": 1}},
        ],
    }
    template = {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}, "x": 1}, "spec": spec}
    stored = created(kinds, namespace, tfjob({"Worker": {"template": template}}))
    assert stored["spec"]["tfReplicaSpecs"]["Worker"]["template"] == template
    assert workload_of_object(stored).workload.tolerations == (Toleration("", None, None),)


def test_a_key_without_a_value_is_a_key_left_out(kinds: ControlPlane, namespace: str):
    job = tfjob({"PS": None, "Worker": WORKER}, cleanPodPolicy=None, runPolicy=None, **{"min-instances": None})
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod |= {"restartPolicy": None, "tolerations": None}
    pod["containers"][0] |= {"env": None, "resources": {"limits": {"cpu": 1}, "requests": None}}
    stored = created(kinds, namespace, job)
    assert stored["spec"].keys() == {"tfReplicaSpecs"}
    assert stored["spec"]["tfReplicaSpecs"].keys() == {"Worker"}
    assert workload_of_object(stored).workload.roles[-1].request.cpu_milli == 1000


@pytest.mark.parametrize(
    ("job", "meant"),
    [
        pytest.param(mpijob(cleanPodPolicy="All"), "v1", id="words of v1"),
        pytest.param(mpijob(version="v2beta1", runLauncherAsWorker=True), "v2beta1", id="words of v2beta1"),
    ],
)
def test_an_mpijob_can_be_read_in_both_versions_whichever_it_was_written_in(
    kinds: ControlPlane, namespace: str, job: Manifest, meant: str
):
    created(kinds, namespace, job)
    for version in ("v1", "v2beta1"):
        read = kinds.api().get(f"{path_of(job, namespace, version=version)}/job1")
        assert read["apiVersion"] == f"kubeflow.org/{version}"
        assert read["spec"] == job["spec"]
        assert workload_of_object(read).workload.api_version == f"kubeflow.org/{meant}"


def test_a_status_can_be_written_without_touching_the_spec_and_the_other_way_round(kinds: ControlPlane, namespace: str):
    path = f"{path_of(tfjob(), namespace)}/job1"
    stored = created(kinds, namespace, tfjob(), status={"observedGeneration": 7})
    assert "status" not in stored, "whoever creates a job says nothing about how it stands"
    told = kinds.api().patch(f"{path}/status", {"spec": {"min-instances": 1}, "status": {"observedGeneration": 1}})
    assert told["status"] == {"observedGeneration": 1}
    assert "min-instances" not in told["spec"]
    assert told["metadata"]["generation"] == 1
    asked = kinds.api().patch(path, {"spec": {"min-instances": 1}, "status": {"observedGeneration": 9}})
    assert (asked["status"], asked["spec"]["min-instances"]) == ({"observedGeneration": 1}, 1)
    assert asked["metadata"]["generation"] == 2


def test_the_status_keeps_what_the_operator_must_remember_and_checks_what_people_read(
    kinds: ControlPlane, namespace: str
):
    created(kinds, namespace, tfjob())
    path = f"{path_of(tfjob(), namespace)}/job1/status"
    condition = {"type": "Running", "status": "True", "reason": "TFJobRunning", "observedGeneration": 1}
    status = {
        "conditions": [condition | {"lastTransitionTime": "2024-01-01T00:00:00Z"}],
        "replicaStatuses": {"Worker": {"active": 2}, "PS": {"active": 1, "selector": "a=b"}},
        "startTime": "2024-01-01T00:00:00Z",
        "enqueueTime": "2024-01-01T00:00:00Z",
        "startRunTime": "2024-01-01T00:00:00Z",
        "finishedTime": "2024-01-01T00:00:00Z",
        "selector": "job-name=job1",
        "scheduling": {"state": "Running", "workers": "2/1-4", "seats": [{"worker": [0, 1]}], "asOf": 1.5},
    }
    assert kinds.api().patch(path, {"status": status})["status"] == status
    for wrong, field in (
        ({"conditions": [condition | {"status": "Yes"}]}, "status.conditions.status"),
        ({"startTime": "yesterday"}, "status.startTime"),
        ({"replicaStatuses": {"Worker": {"active": -1}}}, "status.replicaStatuses.Worker.active"),
    ):
        with pytest.raises(ApiError) as refused:
            kinds.api().patch(path, {"status": wrong})
        assert refused.value.status == 422
        assert field in refused.value.message


def test_a_migration_is_read_as_it_was_asked_for(kinds: ControlPlane, namespace: str):
    stored = created(kinds, namespace, migration(job="mnist", worker=1, to="node-2", reason="hot"))
    request = read_migration(stored)
    assert (request.namespace, request.name, request.uid) == (namespace, "move", stored["metadata"]["uid"])
    assert (request.job, request.worker, request.to, request.reason) == ("mnist", 1, "node-2", "hot")
    assert request.generation == 1
    path = f"{path_of(stored, namespace)}/move/status"
    status = {
        "phase": "Succeeded",
        "from": "node-1",
        "to": "node-2",
        "worker": 1,
        "startedAt": "2024-01-01T00:00:00Z",
        "finishedAt": "2024-01-01T00:00:03Z",
        "downtimeSeconds": 2.75,
        "committedStep": 1200,
        "observedGeneration": 1,
        "conditions": [{"type": "Succeeded", "status": "True"}],
    }
    assert kinds.api().patch(path, {"status": status})["status"] == status
    with pytest.raises(ApiError, match=r"status\.phase"):
        kinds.api().patch(path, {"status": {"phase": "Done"}})
