"""What `get`, `describe`, `top`, `wait` and `events` tell of a cluster, and `drain` of its nodes."""

import json

import yaml

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, NODES
from sterna.engines.kubernetes.status.standing import Standing
from sterna.model.phases import Phase
from tests.interfaces.cluster.manifests import elastic
from tests.interfaces.cluster.standings import running


def test_a_running_job_is_described_with_all_that_is_known(console, trained):
    table = console.answer("get", "jobs", "-o", "wide").splitlines()
    assert table[0].split() == [
        *("NAME", "STATUS", "WORKERS", "SCHEDULER", "WAITING", "RUNNING", "TOTAL", "SIZE", "GPUS", "PROGRESS"),
        *("GROWTH", "REASON", "NODES", "PRIORITY", "RESTARTS", "MIGRATIONS", "CHECKPOINT", "AGE"),
    ]
    assert table[1].split()[:3] == ["mnist", "Running", "2"]
    assert "70%" in table[1]
    assert "step 60" in table[1]
    text = console.answer("describe", "mnist")
    for words in ("2 now, from 1 to 2", "mnist-worker-0", "mnist-worker-1", "ElasticJobRunning", "NodeDrained"):
        assert words in text
    assert all(node in text for node in trained)
    record = console.data("get", "job", "mnist")
    assert [(w["name"], w["rank"], w["node"], w["phase"], w["incarnation"]) for w in record["workerDetails"]] == [
        (f"mnist-worker-{rank}", rank, node, "running", 2) for rank, node in enumerate(trained)
    ]
    assert record["runningSeconds"] >= 30.0
    assert yaml.safe_load(record["manifest"])["spec"]["workers"] == {"min": 1, "max": 2}


def test_nodes_say_what_is_used_and_by_whom(console, trained):
    records = {node["name"]: node for node in console.data("get", "nodes") if node["name"] in trained}
    for ordinal, name in enumerate(trained):
        node = records[name]
        assert (node["gpus"], node["ready"], node["schedulable"], node["virtual"]) == (4, True, True, False)
        assert node["used"] == {"cpuMilli": 2000, "memoryBytes": 1 << 30, "gpus": 1}
        assert node["workers"] == [f"{console.namespace}/mnist/mnist-worker-{ordinal}"]
    assert "mnist-worker-0" in console.answer("describe", "node", trained[0])
    assert "GPUs in use" in console.answer("top", "--once")


def test_a_node_is_drained_and_taken_back(console, trained):
    node = trained[0]
    assert "is being emptied" in console.answer("drain", node)
    stored = console.api.get(console.path(NODES, node))
    assert stored["spec"]["unschedulable"] is True
    assert stored["metadata"]["annotations"]["sterna.dev/drain"] == "true"
    [record] = [one for one in console.data("get", "nodes") if one["name"] == node]
    assert (record["schedulable"], record["limits"]) == (False, "it is being emptied, by sterna drain")
    console.answer("uncordon", node)
    stored = console.api.get(console.path(NODES, node))
    assert not stored["spec"].get("unschedulable")
    assert "sterna.dev/drain" not in stored["metadata"].get("annotations", {})
    assert "there is no node 'nope'" in console.refused(3, "drain", "nope")
    console.api.patch(console.path(NODES, node), {"spec": {"unschedulable": True}})
    assert "cordoned" in console.answer("get", "nodes", node, "-o", "wide")


def test_waiting_ends_when_the_status_says_so(console):
    console.submit(elastic("a"))
    assert "is not running" in console.refused(4, "wait", "a", "--for", "running", "--timeout", "1s")
    console.stand(ELASTIC_JOBS, "a", running("n1"), conditions=[{"type": "Running", "status": "True"}])
    assert "is Running" in console.answer("wait", "a", "--for", "running", "--timeout", "60s")
    assert "is Running" in console.answer("wait", "a", "--for", "condition=Running", "--timeout", "60s")
    console.stand(ELASTIC_JOBS, "a", Standing(phase=Phase.FAILED, reason="BackoffLimitExceeded", message="it broke"))
    assert "it broke" in console.refused(1, "wait", "a", "--for", "succeeded", "--timeout", "60s")


def test_events_of_a_job_and_its_pods_are_told_in_their_order(console, trained):
    for reason, kind, name in (("Placed", "ElasticJob", "mnist"), ("Failed", "Pod", "mnist-worker-0"),
                               ("Scheduled", "Pod", "somebody-elses")):  # fmt: skip
        console.event(reason, kind, name)
    events = console.data("events", "mnist")
    ours = [event for event in events if event["reason"] in ("Placed", "Failed", "Scheduled")]
    assert [(event["reason"], event["job"]) for event in ours] == [
        (reason, f"{console.namespace}/mnist") for reason in ("Placed", "Failed")
    ]
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids))
    assert ours[1]["message"] == "mnist-worker-0: about Failed"
    assert ours[1]["type"] == "Warning"
    everybodys = console.data("events")
    assert {event["id"] for event in ours} <= {event["id"] for event in everybodys}
    assert "somebody-elses" not in json.dumps(everybodys)
    assert "Placed" in console.answer("describe", "mnist")
    console.answer("delete", "mnist")
    assert {event["id"] for event in ours} <= {event["id"] for event in console.data("events", "mnist")}, (
        "also those of jobs that are gone"
    )
    assert "there is no job" in console.refused(3, "events", "nope")
