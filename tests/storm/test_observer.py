"""The observer of a storm sees what must not be, and nothing where all is well."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.cluster.talking import Followed
from tests.storm.observer import Observer

ROOM = {"cpu": "2", "pods": "10"}
JOB = "job-uid"


def pod(
    uid: str,
    *,
    name: str = "a-1-worker-0",
    node: str = "node-0",
    phase: str = "Running",
    cpu: str = "1",
    incarnation: str = "1",
    reason: str = "",
    **meta: Any,
) -> dict[str, Any]:
    job, role, index = name.rsplit("-", 2)
    labels = {"sterna.dev/job-name": job, "sterna.dev/replica-type": role, "sterna.dev/replica-index": index}
    metadata = {"uid": uid, "namespace": "ns", "name": name, "labels": labels, **meta}
    metadata["annotations"] = {"sterna.dev/incarnation": incarnation}
    metadata.setdefault("ownerReferences", [{"uid": JOB, "controller": True}])
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": phase, "reason": reason},
    }


def job(**conditions: str) -> dict[str, Any]:
    said = [{"type": kind, "status": status, "message": ""} for kind, status in conditions.items()]
    metadata = {"uid": JOB, "namespace": "ns", "name": "a-1"}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": said}}


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        pytest.param([pod("1"), pod("2", name="a-1-worker-1")], "", id="two workers fill a node"),
        pytest.param(
            [pod("1"), pod("2", name="a-1-worker-1", cpu="1100m")], "holds more", id="one more than a node can hold"
        ),
        pytest.param(
            [pod("1", phase="Failed"), pod("2", name="a-1-worker-1", cpu="2")], "", id="what is over takes no room"
        ),
        pytest.param(
            [pod("1", **GOING), pod("2", name="a-1-worker-1", cpu="2")], "holds more", id="what goes still takes room"
        ),
        pytest.param([pod("1"), pod("1", phase="Succeeded"), pod("2", cpu="2")], "", id="one after another"),
        pytest.param([pod("1"), pod("2", node="node-1")], "two pods in one seat", id="two in one seat"),
        pytest.param(
            [pod("1"), pod("2", name="a-1-worker-1", incarnation="2")],
            "two gangs",
            id="two gangs at once",
        ),
        pytest.param(
            [pod(str(n), phase="Failed", reason="OutOfcpu") for n in range(3)], "", id="three tries of one node"
        ),
        pytest.param(
            [pod(str(n), phase="Failed", reason="OutOfcpu") for n in range(4)], "4 times in a row", id="a fourth try"
        ),
        pytest.param(
            [pod(str(n), phase="Failed", reason="OutOfcpu", node=f"node-{n % 2}") for n in range(6)],
            "",
            id="other nodes are tried between",
        ),
    ],
)
def test_what_pods_must_not_do(pods: Sequence[dict[str, Any]], says: str):
    looking = Observer(["ns"], ROOM)
    looking.take_jobs("ElasticJob", told("ADDED", job()))
    for body in pods:
        looking.take_pods(told("MODIFIED", body))
    assert looking.wrongs == [] if not says else says in looking.wrongs[0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param([job(Succeeded="False"), job(Succeeded="True")], "", id="it ends"),
        pytest.param([job(Succeeded="True"), job(Succeeded="False")], "at work again", id="it ended and goes on"),
        pytest.param([job(Succeeded="True"), job(Failed="True")], "is Failed", id="another end"),
        pytest.param([job(Succeeded="True", Failed="True")], "succeeded and failed", id="both ends"),
    ],
)
def test_what_jobs_must_not_do(changes: Sequence[dict[str, Any]], says: str):
    looking = Observer(["ns"], ROOM)
    for body in changes:
        looking.take_jobs("ElasticJob", told("MODIFIED", body))
    assert looking.wrongs == [] if not says else says in looking.wrongs[0]


def test_pods_of_jobs_that_went_or_ended_are_left_over():
    looking = Observer(["ns"], ROOM)
    looking.take_jobs("ElasticJob", told("ADDED", job()))
    looking.take_pods(told("ADDED", pod("1")))
    assert looking.left_over() == []
    looking.take_jobs("ElasticJob", told("MODIFIED", job(Succeeded="True")))
    assert looking.left_over() == ["pod a-1-worker-0 runs, and its job has Succeeded"]
    looking.take_jobs("ElasticJob", told("DELETED", job(Succeeded="True")))
    assert looking.left_over() == ["pod a-1-worker-0 is there, and its job is not"]
    looking.look()
    assert looking.wrongs == [], "it may be there for a while"
    looking.take_pods(told("MODIFIED", pod("1", **GOING)))
    assert looking.left_over() == []


def test_a_pod_that_was_taken_from_its_job_by_hand_is_not_the_jobs_to_take_away():
    looking = Observer(["ns"], ROOM)
    looking.take_jobs("ElasticJob", told("ADDED", job()))
    looking.take_pods(told("ADDED", pod("1")))
    forged = pod("1")
    forged["metadata"]["labels"]["sterna.dev/job-name"] = "forged"
    looking.take_pods(told("MODIFIED", forged))
    looking.take_jobs("ElasticJob", told("MODIFIED", job(Succeeded="True")))
    assert looking.left_over() == []


def told(kind: str, body: dict[str, Any]) -> Followed:
    return Followed(kind, [msgspec.Raw(msgspec.json.encode(body))])
