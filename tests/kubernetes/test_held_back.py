"""Jobs that may not start yet, or not everywhere: gates in a template, claims and where their volumes are."""

from collections.abc import Iterator

import pytest

from tests.cluster.requests import Body
from tests.cluster.volumes import Volumes
from tests.kubernetes.jobs import elasticjob, job_of
from tests.kubernetes.lab import Lab

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def volumes(lab: Lab) -> Iterator[Volumes]:
    with Volumes(lab.api, lab.namespace) as found:
        yield found


def said(lab: Lab, name: str) -> tuple[str, str]:
    scheduling = lab.job("ElasticJob", name).get("status", {}).get("scheduling", {})
    return str(scheduling.get("reason", "")), str(scheduling.get("message", ""))


def until_said(lab: Lab, name: str, reason: str, *words: str) -> str:
    lab.until(lambda: said(lab, name)[0] == reason, f"{name} says {reason}")
    message = said(lab, name)[1]
    assert all(word in message for word in words), message
    return message


def nodes_of(pods: dict[str, Body]) -> set[str]:
    return {str(pod["spec"]["nodeName"]) for pod in pods.values()}


def test_a_job_with_gates_waits_and_names_them_until_they_are_gone(lab: Lab):
    lab.nodes.add(1, gpus=2)
    operator = lab.start()
    lab.submit(job_of("gated", schedulingGates=[{"name": "example.com/budget"}]))
    until_said(lab, "gated", "SchedulingGated", "example.com/budget")
    condition = lab.until_true("ElasticJob", "gated", "FieldsNotHonoured")
    assert "spec.template.spec.schedulingGates" in condition["message"]
    lab.until_rest()
    version = lab.job("ElasticJob", "gated")["metadata"]["resourceVersion"]
    operator.operator.look_again()
    lab.submit(elasticjob("other"))
    lab.until_pods("other", "other-worker-0")
    assert lab.pods("gated") == [], "and the room is another job's"
    lab.until_rest()
    assert lab.job("ElasticJob", "gated")["metadata"]["resourceVersion"] == version, "nothing is written of what waits"
    lab.edit("ElasticJob", "gated", {"spec": {"template": {"spec": {"schedulingGates": None}}}})
    lab.until_pods("gated", "gated-worker-0")
    lab.until(lambda: (lab.condition("ElasticJob", "gated", "FieldsNotHonoured") or {})["status"] == "False", "all is")
    told = [event for event in lab.events("gated") if event["reason"] == "FieldsNotHonoured"]
    assert len(told) == 1


def test_gates_that_a_running_job_gets_hold_back_its_next_start_alone(lab: Lab):
    lab.nodes.add(1, gpus=2)
    lab.start()
    lab.submit(job_of("job"))
    (before,) = lab.until_pods("job", "job-worker-0").values()
    lab.edit("ElasticJob", "job", {"spec": {"template": {"spec": {"schedulingGates": [{"name": "late"}]}}}})
    lab.until_true("ElasticJob", "job", "FieldsNotHonoured")
    lab.until_rest()
    assert [pod["metadata"]["uid"] for pod in lab.pods("job")] == [before["metadata"]["uid"]]
    lab.edit("ElasticJob", "job", {"spec": {"runPolicy": {"suspend": True}}})
    lab.until(lambda: not lab.all_pods("job"), "it is suspended")
    lab.edit("ElasticJob", "job", {"spec": {"runPolicy": {"suspend": False}}})
    until_said(lab, "job", "SchedulingGated", "late")
    assert lab.pods("job") == []


def test_a_job_runs_where_the_volumes_of_its_claims_are(lab: Lab, volumes: Volumes):
    lab.nodes.add(3, gpus=2, labels={ZONE: "a"})
    (there,) = lab.nodes.add(1, gpus=2, labels={ZONE: "b"}, prefix="there")
    volumes.bound("data", terms=[{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}])
    volumes.bound("logs", labels={ZONE: "b__c"})
    volumes.until_bound("data", "logs")
    lab.start()
    for number, claim in enumerate(("data", "logs")):
        lab.submit(job_of(f"job-{number}", claim=claim))
        pods = lab.until_pods(f"job-{number}", f"job-{number}-worker-0")
        assert nodes_of(pods) == {there}
    volumes.bound("far", labels={ZONE: "d"})
    lab.submit(job_of("nowhere", claim="far"))
    until_said(lab, "nowhere", "NeverFits")


def test_a_job_waits_for_its_claim_by_name_and_starts_once_it_is_bound(lab: Lab, volumes: Volumes):
    lab.nodes.add(1, gpus=2)
    lab.start()
    volumes.claim("later", storageClassName=volumes.storage_class(waits_for_pod=True))
    lab.submit(job_of("first", claim="later"))
    lab.submit(job_of("job", claim="data"))
    until_said(lab, "first", "VolumesNotReady", "later waits for its first consumer", "selected-node")
    until_said(lab, "job", "VolumesNotReady", "data is not there")
    storage = volumes.storage_class(waits_for_pod=False)
    volumes.claim("data", storageClassName=storage)
    lab.until(lambda: "is not bound to a volume yet" in said(lab, "job")[1], "it says what is missing now")
    assert lab.pods("job") == []
    lab.api.patch(volumes.path("data"), {"spec": {"volumeName": volumes.volume("data", storageClassName=storage)}})
    lab.until_pods("job", "job-worker-0")
