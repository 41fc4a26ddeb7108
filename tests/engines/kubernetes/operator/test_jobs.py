"""Jobs from their start to their end, as a user of `kubectl` sees them."""

import json
from functools import partial
from typing import Any

from sterna.engines.kubernetes.process.settings import Binding
from tests.cluster.requests import until
from tests.engines.kubernetes.operator.lab import (
    Lab,
    RunningOperator,
    conditions_of,
    elastic_job,
    same,
    state_of,
    tf_job,
)


def environment_of(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def test_a_tfjob_starts_shrinks_grows_back_and_finishes(lab: Lab):
    lab.nodes.add(2, gpus=2)
    stays = ["job1-ps-0", "job1-worker-0", "job1-worker-1"]
    with lab.operator():
        lab.create(tf_job("job1", workers=2, low=1, high=4))
        first = lab.until_pods("job1-ps-0", *(f"job1-worker-{n}" for n in range(4)))
        task = json.loads(environment_of(first["job1-worker-1"])["TF_CONFIG"])["task"]
        assert task == {"type": "worker", "index": 1}
        lab.create(tf_job("job2", workers=2, low=2, high=2, ps=0))
        both = lab.until_pods(*stays, "job2-worker-0", "job2-worker-1")
        assert same(stays, first, both)
        lab.nodes.exit("job2-worker-0", 0)
        lab.until_condition("TFJob", "job2", "Succeeded")

        def grown() -> bool:
            return {"job1-worker-2", "job1-worker-3"} <= lab.pods().keys()

        until(grown, "job1 has its workers back", story=lab.story)
        assert same(stays, first, lab.pods())
        lab.nodes.exit("job1-worker-0", 0)
        done = lab.until_condition("TFJob", "job1", "Succeeded")
        assert done["status"]["completionTime"]


def test_one_job_that_makes_no_sense_does_not_disturb_the_others(lab: Lab):
    lab.nodes.add(1, gpus=2)
    bad = tf_job("bad", low=3, high=1)
    with lab.operator():
        lab.create(bad)
        lab.create(elastic_job("good", low=1, high=1))
        lab.until_pods("good-worker-0")
        failed = lab.until_condition("TFJob", "bad", "Failed")
        assert conditions_of(failed)["Failed"] == "InvalidTFJobSpec"
        until(
            lambda: any(
                reason == "InvalidTFJobSpec" and "max-instances" in message for reason, message in lab.events("bad")
            ),
            "its owner is told",
            story=lambda: lab.events("bad"),
        )


def test_a_job_that_somebody_else_manages_is_left_alone(lab: Lab):
    lab.nodes.add(1, gpus=2)
    theirs = tf_job("theirs", ps=0)
    theirs["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    with lab.operator() as operator:
        lab.create(theirs)
        lab.create(elastic_job("ours", low=1, high=1))
        lab.until_pods("ours-worker-0")
        until(lambda: operator.operator.at_rest, "nothing is left to do")
        assert "status" not in lab.job("TFJob", "theirs")


def test_two_kinds_cannot_share_a_name_and_the_older_one_has_it(lab: Lab):
    lab.nodes.add(1, gpus=4)
    with lab.operator():
        lab.create(elastic_job("twin", low=1, high=1))
        before = lab.until_pods("twin-worker-0")
        lab.create(tf_job("twin", workers=1, low=1, high=1, ps=0))
        failed = lab.until_condition("TFJob", "twin", "Failed")
        assert "ElasticJob twin has this name" in failed["status"]["scheduling"]["message"]
        assert same(["twin-worker-0"], before, lab.until_pods("twin-worker-0"))


def test_a_job_that_waits_says_why_once_and_starts_when_there_is_room(lab: Lab):
    lab.nodes.add(1, gpus=1)
    with lab.operator() as operator:
        lab.create(elastic_job("first", low=1, high=1))
        lab.until_pods("first-worker-0")
        lab.create(elastic_job("second", low=1, high=1))
        until(lambda: _waiting(lab, "second") == "NoRoom", "it is told why it waits", story=lab.story)
        until(lambda: operator.operator.at_rest, "nothing is left to do")
        version = lab.job("ElasticJob", "second")["metadata"]["resourceVersion"]
        operator.ask(lambda found: found.look_again())
        until(lambda: operator.operator.at_rest, "nothing is left to do")
        assert lab.job("ElasticJob", "second")["metadata"]["resourceVersion"] == version
        lab.delete("ElasticJob", "first")
        lab.until_pods("second-worker-0")


def test_a_suspended_job_lets_go_and_comes_back(lab: Lab):
    lab.nodes.add(1, gpus=1)
    with lab.operator():
        lab.create(elastic_job("job", low=1, high=1))
        lab.until_pods("job-worker-0")
        lab.edit("ElasticJob", "job", {"spec": {"runPolicy": {"suspend": True}}})
        lab.until_state("ElasticJob", "job", "Suspended")
        lab.until_pods()
        lab.edit("ElasticJob", "job", {"spec": {"runPolicy": {"suspend": False}}})
        lab.until_pods("job-worker-0")
        lab.until_state("ElasticJob", "job", "Running")


def test_a_pod_that_somebody_deletes_comes_back_in_its_place(lab: Lab):
    lab.nodes.add(2, gpus=2)
    with lab.operator():
        lab.create(tf_job("job", workers=2, low=2, high=2))
        before = lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")
        lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/job-worker-1")
        until(lambda: _is_another(lab, before, "job-worker-1"), "it is another pod", story=lab.story)
        after = lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")
        assert after["job-worker-1"]["spec"]["nodeName"] == before["job-worker-1"]["spec"]["nodeName"]
        assert same(["job-ps-0", "job-worker-0"], before, after)


def test_pods_may_be_bound_as_a_scheduler_does_it(lab: Lab):
    (node,) = lab.nodes.add(1, gpus=2)
    with lab.operator(binding=Binding.BINDING):
        lab.create(elastic_job("job", low=2, high=2))
        pods = lab.until_pods("job-worker-0", "job-worker-1")
        assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"sterna"}
        assert {pod["spec"]["nodeName"] for pod in pods.values()} == {node}
        lab.until_state("ElasticJob", "job", "Running")


def test_an_idle_operator_writes_nothing(lab: Lab):
    lab.nodes.add(1, gpus=2)
    with lab.operator() as operator:
        lab.create(elastic_job("job", low=1, high=2))
        lab.until_pods("job-worker-0", "job-worker-1")
        until(lambda: state_of(lab.job("ElasticJob", "job")) == "Running", "it runs", story=lab.story)
        until(lambda: operator.operator.at_rest, "nothing is left to do")
        before, decider = _versions(lab), operator.operator.decider
        for cycles in range(decider.cycles + 1, decider.cycles + 4):
            operator.ask(lambda found: found.look_again())
            until(partial(_has_looked, operator, cycles), "it looked again")
        assert _versions(lab) == before


def _has_looked(operator: RunningOperator, cycles: int) -> bool:
    return operator.operator.decider.cycles >= cycles and operator.operator.at_rest


def _versions(lab: Lab) -> dict[str, str]:
    """Of everything in the namespace that an operator may write, but events."""
    kinds = [f"/api/v1/namespaces/{lab.namespace}/{kind}" for kind in ("pods", "services", "configmaps")]
    found = [body for path in (*kinds, lab.path("ElasticJob")) for body in lab.api.items(path)]
    return {body["metadata"]["uid"]: body["metadata"]["resourceVersion"] for body in found}


def _waiting(lab: Lab, name: str) -> str:
    """Why, in one word."""
    return str(lab.job("ElasticJob", name).get("status", {}).get("scheduling", {}).get("reason", ""))


def _is_another(lab: Lab, before: dict[str, Any], name: str) -> bool:
    pod = lab.pods().get(name)
    return pod is not None and pod["metadata"]["uid"] != before[name]["metadata"]["uid"]
