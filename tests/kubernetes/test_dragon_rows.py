"""DRAGON's acceptance rows on a real API server: one test for each, named after its row. The kubelets are played."""

import json
from typing import Any

import pytest
import yaml

from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob, pytorchjob, tfjob
from tests.kubernetes.lab import Lab


def started(lab: Lab, *, nodes: int = 2, gpus: int = 2, cpu: str = "64", **settings: Any) -> None:
    lab.nodes.add(nodes, gpus=gpus, cpu=cpu)
    lab.start(**settings)


def workers(name: str, *indices: int) -> list[str]:
    return [f"{name}-worker-{index}" for index in indices]


def spec_of(text: str) -> Body:
    body: Body = yaml.safe_load(text)
    return body


def env_of(pod: Body) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]}


NAMELESS: Body = {"template": {"spec": {"containers": [{"name": "main", "image": "localhost/none:1"}]}}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"min-instances": 3, "max-instances": 2}, "max-instances", id="more at least than at most"),
        pytest.param({"min-instances": 2, "max-instances": 4}, "replicas", id="fewer replicas than the minimum"),
        pytest.param({"tfReplicaSpecs": {"Worker": NAMELESS}}, "tensorflow", id="no container that counts"),
        pytest.param({"tfReplicaSpecs": {"PS": NAMELESS}}, "Worker", id="servers alone"),
    ],
)
def test_dragon_1_a_job_that_makes_no_sense_fails_at_once_and_says_why(lab: Lab, change: Body, told: str):
    started(lab)
    body = spec_of(tfjob("job1"))
    body["spec"] |= change
    lab.submit(yaml.safe_dump(body))
    failed = lab.until_true("TFJob", "job1", "Failed")
    assert failed["reason"] == "InvalidTFJobSpec"
    assert told in failed["message"]
    lab.until(lambda: "InvalidTFJobSpec" in lab.reasons("job1"), "an event says so")
    assert lab.pods() == []


def test_dragon_1_roles_may_be_written_in_lower_case(lab: Lab):
    started(lab)
    body = spec_of(tfjob("job1"))
    body["spec"]["tfReplicaSpecs"] = {key.lower(): value for key, value in body["spec"]["tfReplicaSpecs"].items()}
    lab.submit(yaml.safe_dump(body))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0")


def test_dragon_2_the_first_pod_has_what_the_manifest_left_out(lab: Lab):
    started(lab)
    worker = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "localhost/none:1"}]}}}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "job1"}}
    lab.submit(yaml.safe_dump(body | {"spec": {"tfReplicaSpecs": {"Worker": worker}}}))
    pod = lab.until_pods("job1", "job1-worker-0")["job1-worker-0"]
    assert pod["spec"]["restartPolicy"] == "Never"
    ports = [{key: port[key] for key in ("name", "containerPort")} for port in pod["spec"]["containers"][0]["ports"]]
    assert ports == [{"name": "tfjob-port", "containerPort": 2222}]


def test_dragon_3_limits_alone_are_what_is_counted(lab: Lab):
    """Five pods of four CPUs on nodes of six: one to a node, never two."""
    started(lab, nodes=5, gpus=0, cpu="6")
    lab.submit(tfjob("job1", workers=(1, 4, 4), gpus=0, cpu="4"))
    pods = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1, 2, 3))
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 5


def test_dragon_4_names_labels_owners_and_services_of_job1(lab: Lab):
    started(lab)
    (job,) = lab.submit(tfjob("job1", workers=(1, 4, 4)))
    pods = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1, 2, 3))
    path = f"/api/v1/namespaces/{lab.namespace}/services"
    services = {found["metadata"]["name"]: found for found in lab.api.items(path)}
    assert services.keys() == pods.keys()
    for name, pod in pods.items():
        _, kind, index = name.split("-")
        common = {
            "group-name": "kubeflow.org",
            "tf-job-name": "job1",
            "tf-replica-type": kind,
            "tf-replica-index": index,
        }
        labels = pod["metadata"]["labels"]
        assert labels.items() >= common.items()
        assert len(labels["tf-job-workerid"]) == 5
        assert (labels.get("tf-job-role") == "master") is (name == "job1-worker-0")
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (job["metadata"]["uid"], True, True)
        service = services[name]["spec"]
        assert (service["clusterIP"], service["selector"]) == ("None", common)
        assert [(port["name"], port["port"]) for port in service["ports"]] == [("tfjob-port", 2222)]


def test_dragon_5_dragon_6_tf_config_never_changes_and_the_lowest_free_index_is_taken(lab: Lab):
    started(lab)
    lab.submit(tfjob("job1", workers=(1, 2, 4)))
    four = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1, 2, 3))
    hosts = [f"job1-worker-{index}.{lab.namespace}.svc:2222" for index in range(4)]
    assert json.loads(env_of(four["job1-worker-1"])["TF_CONFIG"]) == {
        "cluster": {"ps": [f"job1-ps-0.{lab.namespace}.svc:2222"], "worker": hosts},
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    lab.submit(elasticjob("other", workers=(2, 2)))
    lab.until(lambda: len(lab.all_pods("job1")) == 3, "job1 has two workers")
    two = {pod["metadata"]["name"]: pod for pod in lab.pods("job1")}
    lab.delete("ElasticJob", "other")
    again = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1, 2, 3))
    for name, pod in two.items():
        assert again[name]["metadata"]["uid"] == pod["metadata"]["uid"]
        assert env_of(again[name]) == env_of(four[name])


def test_dragon_7_a_deleted_pod_comes_back_in_its_slot_and_elsewhere_when_its_node_is_gone(lab: Lab):
    started(lab, nodes=3, gpus=1)
    lab.submit(tfjob("job1", workers=(2, 2, 2)))
    before = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))["job1-worker-1"]
    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/job1-worker-1", {"gracePeriodSeconds": 0})
    lab.until(lambda: before["metadata"]["uid"] not in _uids(lab, "job1"), "the old pod is gone")
    after = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))["job1-worker-1"]
    slot = "tf-job-workerid"
    assert after["spec"]["nodeName"] == before["spec"]["nodeName"]
    assert after["metadata"]["labels"][slot] == before["metadata"]["labels"][slot]
    lab.nodes.delete(str(after["spec"]["nodeName"]))
    lab.until(lambda: after["metadata"]["uid"] not in _uids(lab, "job1"), "nothing is left on the deleted node")
    moved = lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    assert after["spec"]["nodeName"] not in {pod["spec"]["nodeName"] for pod in moved.values()}


def test_dragon_8_a_chief_ends_the_job_and_an_evaluator_is_not_in_the_cluster_spec(lab: Lab):
    started(lab)
    body = spec_of(tfjob("job1", workers=(2, 2, 2), ps=0))
    roles = body["spec"]["tfReplicaSpecs"]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "localhost/none:1"}]}}
    roles["Chief"] = {"replicas": 1, "template": template}
    roles["Evaluator"] = {"replicas": 1, "template": template}
    lab.submit(yaml.safe_dump(body))
    pods = lab.until_pods("job1", "job1-chief-0", "job1-evaluator-0", *workers("job1", 0, 1))
    assert json.loads(env_of(pods["job1-worker-0"])["TF_CONFIG"])["cluster"].keys() == {"chief", "worker"}
    lab.nodes.exit("job1-chief-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")


def test_dragon_9_worker_0_ends_a_job_without_a_chief(lab: Lab):
    started(lab)
    lab.submit(tfjob("job1", workers=(3, 3, 3), ps=0))
    lab.until_pods("job1", *workers("job1", 0, 1, 2))
    lab.nodes.exit("job1-worker-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until_pods("job1")  # cleanPodPolicy: All
    assert lab.job("TFJob", "job1")["status"]["completionTime"]


@pytest.mark.parametrize(
    ("code", "again"),
    [
        (1, False),
        (2, False),
        (127, False),
        (128, False),
        (130, True),
        (137, True),
        (138, True),
        (143, True),
        (200, False),
    ],
)
def test_dragon_10_exit_codes_that_are_tried_again(lab: Lab, code: int, again: bool):
    started(lab)
    lab.submit(tfjob("job1", policy="ExitCode"))
    before = lab.until_pods("job1", "job1-ps-0", "job1-worker-0")["job1-worker-0"]
    lab.nodes.exit("job1-worker-0", code)
    if again:
        lab.until(lambda: before["metadata"]["uid"] not in _uids(lab, "job1"), "the failed pod is gone")
        after = lab.until_pods("job1", "job1-ps-0", "job1-worker-0")["job1-worker-0"]
        assert after["spec"]["nodeName"] == before["spec"]["nodeName"]
        lab.until(lambda: "TFJobRestarting" in lab.reasons("job1"), "it is told")
    else:
        assert str(code) in lab.until_true("TFJob", "job1", "Failed")["message"]


@pytest.mark.parametrize("limit", [0, 2])
def test_dragon_11_the_back_off_limit_is_met_exactly(lab: Lab, limit: int):
    started(lab)
    lab.submit(tfjob("job1", more=f"backoffLimit: {limit}"))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0")
    for _ in range(max(limit, 1) - 1):
        lab.nodes.exit("job1-worker-0", 1)  # restarted in its place
        lab.until_rest()
        assert lab.phase("TFJob", "job1") == "Running"
    lab.nodes.exit("job1-worker-0", 1)
    assert lab.until_true("TFJob", "job1", "Failed")["reason"]
    lab.until_pods("job1")


def test_dragon_12_the_deadline_counts_from_placement_and_follows_an_edit(lab: Lab):
    started(lab, nodes=0)
    lab.submit(tfjob("job1", more="activeDeadlineSeconds: 3600"))
    lab.until(lambda: lab.phase("TFJob", "job1") == "Waiting", "it waits")
    assert lab.job("TFJob", "job1")["status"].get("startTime") is None
    lab.nodes.add(1, gpus=2)
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0")
    assert lab.job("TFJob", "job1")["status"]["startTime"]
    lab.edit("TFJob", "job1", {"spec": {"activeDeadlineSeconds": 1}})
    assert "activeDeadlineSeconds" in lab.until_true("TFJob", "job1", "Failed")["message"]


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        pytest.param("All", [], id="all of them go"),
        pytest.param("Running", ["job1-worker-1"], id="those that run go"),
        pytest.param("None", ["job1-ps-0", "job1-worker-0", "job1-worker-1"], id="none goes"),
    ],
)
def test_dragon_13_what_is_cleaned_up(lab: Lab, policy: str, left: list[str]):
    """Of a job of which one pod runs, one has succeeded and one has failed."""
    started(lab)
    lab.submit(tfjob("job1", workers=(2, 2, 2), policy="ExitCode", clean=policy))
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    lab.nodes.exit("job1-worker-1", 1)
    lab.until_true("TFJob", "job1", "Failed")
    lab.until(lambda: lab.names("job1") == left, f"{left} are left")
    lab.until_rest()
    assert lab.names("job1") == left
    counted = lab.job("TFJob", "job1")["status"]["replicaStatuses"]["Worker"]
    assert counted.get("failed") == 1


@pytest.mark.parametrize(("seconds", "kept"), [(0, False), (1, False), (3600, True), (None, True)])
def test_dragon_14_time_to_live(lab: Lab, seconds: int | None, kept: bool):
    started(lab)
    lab.submit(tfjob("job1", more="" if seconds is None else f"ttlSecondsAfterFinished: {seconds}"))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0")
    lab.nodes.exit("job1-worker-0", 0)
    if kept:
        lab.until_true("TFJob", "job1", "Succeeded")
        lab.until_rest()
        assert not lab.gone("TFJob", "job1")
    else:
        lab.until(lambda: lab.gone("TFJob", "job1"), "the job is deleted")


def test_dragon_15_conditions_come_in_their_order_and_the_first_ending_stays(lab: Lab):
    started(lab)
    lab.submit(tfjob("job1", workers=(2, 2, 2), policy="ExitCode", clean="None"))
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    lab.until_true("TFJob", "job1", "Running")
    lab.nodes.exit("job1-worker-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.nodes.exit("job1-worker-1", 1)  # too late to matter
    lab.until_rest()
    found = lab.job("TFJob", "job1")["status"]["conditions"]
    known = [c["type"] for c in found if c["type"] in ("Created", "Running", "Restarting", "Succeeded", "Failed")]
    assert known == ["Created", "Running", "Succeeded"]
    assert found[-1]["type"] == "Succeeded"
    assert lab.condition("TFJob", "job1", "Running")["status"] == "False"  # type: ignore[index]
    assert all(condition["observedGeneration"] == 1 for condition in found)


@pytest.mark.parametrize("state", ["waiting", "running", "finished"])
def test_dragon_47_a_deleted_job_leaves_nothing(lab: Lab, state: str):
    started(lab, nodes=0 if state == "waiting" else 1)
    lab.submit(tfjob("job1", clean="None"))
    if state == "waiting":
        lab.until(lambda: lab.phase("TFJob", "job1") == "Waiting", "it waits")
    else:
        lab.until_pods("job1", "job1-ps-0", "job1-worker-0")
    if state == "finished":
        lab.nodes.exit("job1-worker-0", 0)
        lab.until_true("TFJob", "job1", "Succeeded")
    lab.delete("TFJob", "job1")
    lab.until(lambda: lab.gone("TFJob", "job1") and not lab.all_pods(), "job and pods are gone")
    path = f"/api/v1/namespaces/{lab.namespace}/services"
    lab.until(lambda: not lab.api.items(path), "services are gone")
    if state == "waiting":
        lab.nodes.add(1, gpus=2)
    lab.submit(pytorchjob("next", replicas=2))  # the room is free, and the queue is not blocked by a ghost
    lab.until_pods("next", *workers("next", 0, 1))


def test_dragon_49_the_events_of_a_scripted_life(lab: Lab):
    started(lab, nodes=1, gpus=2)
    lab.submit(tfjob("job1", workers=(1, 2, 2)))
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    lab.submit(elasticjob("other", workers=(1, 1)))
    lab.until_pods("job1", "job1-ps-0", "job1-worker-0")
    lab.until_pods("other", "other-worker-0")
    lab.submit(elasticjob("third", workers=(2, 2)))
    lab.until(
        lambda: any("NoRoom" in r or "Fits" in r or "Queued" in r for r in lab.reasons("third")),
        "it waits and says why",
    )
    lab.delete("ElasticJob", "third")
    lab.delete("ElasticJob", "other")
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    lab.nodes.exit("job1-worker-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    expected = {"TFJobCreated", "TFJobRunning", "TFJobSucceeded", "ScaledDown", "ScaledUp"}
    expected |= {"SuccessfulCreatePod", "SuccessfulCreateService", "SuccessfulDeletePod"}
    lab.until(lambda: lab.reasons("job1") >= expected, f"{expected} are told")
    down = next(event for event in lab.events("job1") if event["reason"] == "ScaledDown")
    assert "2" in down["message"]
    assert "1" in down["message"]


def _uids(lab: Lab, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lab.all_pods(job)}
