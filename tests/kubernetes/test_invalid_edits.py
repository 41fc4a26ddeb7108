"""A running job whose owner makes an edit that is not valid: it goes by its last valid spec, over restarts as well."""

from collections.abc import Callable

import pytest

from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob, tfjob
from tests.kubernetes.lab import Lab

PODS = ("job1-ps-0", "job1-worker-0", "job1-worker-1")


def runs(lab: Lab, *, policy: str = "Never") -> dict[str, Body]:
    """A job of at most two workers; it has them."""
    lab.nodes.add(2, gpus=2)
    lab.start()
    lab.submit(tfjob("job1", workers=(1, 2, 2), policy=policy))
    found = lab.until_pods("job1", *PODS)
    lab.until_rest()
    return found


def scale_too_far(lab: Lab) -> None:
    """`kubectl scale --replicas=100`, of a job that may have two."""
    path = f"/apis/kubeflow.org/v1/namespaces/{lab.namespace}/tfjobs/job1/scale"
    assert lab.api.patch(path, {"spec": {"replicas": 100}})["spec"]["replicas"] == 100


def scaled_while_no_operator_was_there(lab: Lab) -> None:
    (running,) = lab.operators
    running.kill()
    scale_too_far(lab)
    running.restart()


def scaled_before_a_restart(lab: Lab) -> None:
    (running,) = lab.operators
    scale_too_far(lab)
    lab.until_true("TFJob", "job1", "EditIgnored")
    running.restart()


def ends_well(lab: Lab, _: dict[str, Body]) -> None:
    lab.nodes.exit("job1-worker-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until_pods("job1")


def fails(lab: Lab, _: dict[str, Body]) -> None:
    lab.nodes.exit("job1-worker-1", 1)
    assert "exit code 1" in lab.until_true("TFJob", "job1", "Failed")["message"]


def loses_a_pod(lab: Lab, before: dict[str, Body]) -> None:
    lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/job1-worker-1")

    def is_another() -> bool:
        found = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods("job1")}
        return found.get("job1-worker-1") not in (None, before["job1-worker-1"]["metadata"]["uid"])

    lab.until(is_another, "the pod is made again")
    lab.until_pods("job1", *PODS)


def is_suspended(lab: Lab, _: dict[str, Body]) -> None:
    lab.edit("TFJob", "job1", {"spec": {"runPolicy": {"suspend": True}}})
    lab.until_true("TFJob", "job1", "Suspended")
    lab.until_pods("job1")
    lab.edit("TFJob", "job1", {"spec": {"runPolicy": {"suspend": False}}})
    lab.until_pods("job1", *PODS)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(ends_well, id="a worker that ends well makes it succeed"),
        pytest.param(fails, id="a worker that fails makes it fail"),
        pytest.param(loses_a_pod, id="a pod that is deleted is made again"),
        pytest.param(is_suspended, id="its owner suspends and resumes it"),
    ],
)
def test_dragon_1_a_restarted_operator_looks_after_a_job_whose_edit_is_not_valid(
    lab: Lab, happens: Callable[[Lab, dict[str, Body]], None]
):
    before = runs(lab)
    scaled_while_no_operator_was_there(lab)
    happens(lab, before)


@pytest.mark.parametrize("scaled", [scaled_while_no_operator_was_there, scaled_before_a_restart])
def test_dragon_1_a_condition_says_which_edit_is_not_followed_until_it_is_mended(
    lab: Lab, scaled: Callable[[Lab], None]
):
    before = runs(lab)
    scaled(lab)
    found = lab.until_true("TFJob", "job1", "EditIgnored")
    assert found["reason"] == "InvalidTFJobSpec"
    assert all(part in found["message"] for part in ("replicas", "100", "max"))
    lab.until_rest()
    after = lab.until_pods("job1", *PODS)
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    shown = lab.job("TFJob", "job1")["status"]["scheduling"]
    assert (shown["reason"], shown["workers"]) == ("InvalidTFJobSpec", "2/1-2")
    version = lab.job("TFJob", "job1")["metadata"]["resourceVersion"]
    lab.operators[0].restart()
    lab.until_rest()
    assert lab.job("TFJob", "job1")["metadata"]["resourceVersion"] == version, "what is known is not written again"
    lab.edit("TFJob", "job1", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    lab.until(lambda: (lab.condition("TFJob", "job1", "EditIgnored") or {}).get("status") == "False", "it is mended")


def test_dragon_1_pods_are_made_from_the_last_valid_spec_and_not_from_the_edit(lab: Lab):
    runs(lab, policy="OnFailure")
    (running,) = lab.operators
    running.kill()
    scale_too_far(lab)
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "localhost/other:1"}]}}
    lab.edit("TFJob", "job1", {"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    running.restart()
    loses_a_pod(lab, {pod["metadata"]["name"]: pod for pod in lab.pods("job1")})
    images = {pod["spec"]["containers"][0]["image"] for pod in lab.pods("job1")}
    assert images == {"localhost/none:1"}


def test_s1_a_spec_that_is_kept_in_a_forged_status_asks_for_nothing_that_a_spec_may_not(lab: Lab):
    """It is read as strictly as the spec itself."""
    runs(lab)
    (running,) = lab.operators
    running.kill()
    scale_too_far(lab)
    path = f"/apis/kubeflow.org/v1/namespaces/{lab.namespace}/tfjobs/job1/status"
    kept = lab.job("TFJob", "job1")["status"]["scheduling"]["lastValidSpec"]
    for forged in ("AAAA", "no base64 at all", kept[:-12] + "AAAAAAAAAAAA"):
        lab.api.patch(path, {"status": {"scheduling": {"lastValidSpec": forged}}})
        running.restart()
        lab.until_rest()
        assert len(lab.until_pods("job1", *PODS)) == 3
        found = lab.events("job1")
        assert any("no valid spec of the job is kept" in event["message"] for event in found)
        running.kill()
    lab.edit("TFJob", "job1", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    running.restart()
    ends_well(lab, {})


def test_dragon_1_a_job_that_never_had_a_valid_spec_has_failed_by_that(lab: Lab):
    lab.nodes.add(1, gpus=2)
    lab.start()
    lab.submit(elasticjob("job1", workers=(3, 2)))
    assert lab.until_true("ElasticJob", "job1", "Failed")["reason"] == "InvalidElasticJobSpec"
    lab.until_rest()
    assert not lab.all_pods("job1")
