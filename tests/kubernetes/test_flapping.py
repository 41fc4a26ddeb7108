"""Nodes that come and go: what runs there stays, nothing new comes, and the cluster is told."""

from typing import Any

from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob
from tests.kubernetes.lab import Lab, Running
from tests.kubernetes.rights import USER

FLAPS = 10
WRITES_MAX = 5 * FLAPS  # a gang is ready or not, which its status says; ten restarts were 291 writes


def test_a_node_that_flaps_costs_no_restart_and_is_given_nothing_new(lab: Lab):
    one, two = lab.nodes.add(2, gpus=2)
    running = lab.start()
    lab.submit(elasticjob("gang", workers=(4, 4)))
    before = lab.until_pods("gang", *(f"gang-worker-{number}" for number in range(4)))
    lab.until_true("ElasticJob", "gang", "GangReady")
    lab.until_rest()
    earlier = len(_writes(lab))
    for _ in range(FLAPS):
        _silence(lab, running, two)
        _answer(lab, running, two)
    writes = [f"{event['verb']} {event['requestURI']}" for event in _writes(lab)[earlier:]]
    assert len(writes) <= WRITES_MAX, writes
    after = {pod["metadata"]["name"]: pod for pod in lab.all_pods("gang")}
    assert _uids(after) == _uids(before)
    standing = lab.job("ElasticJob", "gang")["status"]["scheduling"]
    assert (standing["state"], standing["incarnation"], standing.get("restarts", 0)) == ("Running", 1, 0)
    lab.until(lambda: "NodeFlapping" in lab.reasons(two), "the node's events say that it flaps")
    told = next(event for event in lab.events(two) if event["reason"] == "NodeFlapping")
    assert (told["involvedObject"]["kind"], told["type"]) == ("Node", "Warning")
    assert "times within 10 minutes: it is given nothing new" in told["message"]
    assert "NodeFlapping" not in lab.reasons(one)
    for number in range(4):
        lab.nodes.exit(f"gang-worker-{number}", 0)
    lab.until_true("ElasticJob", "gang", "Succeeded")
    lab.submit(elasticjob("small", workers=(1, 4)))
    small = lab.until_pods("small", "small-worker-0", "small-worker-1")
    assert {str(pod["spec"]["nodeName"]) for pod in small.values()} == {one}
    lab.submit(elasticjob("large", workers=(3, 3)))
    lab.until(lambda: _reason(lab, "large") == "NodesFlapping", "a job that needs it is told so")


def test_a_node_that_is_deleted_while_it_is_silent_is_lost_at_once(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    running = lab.start(node_lost_after_s=3600.0)
    lab.submit(elasticjob("job"))
    home = str(lab.until_pods("job", "job-worker-0")["job-worker-0"]["spec"]["nodeName"])
    _silence(lab, running, home)
    assert [pod["spec"]["nodeName"] for pod in lab.pods("job")] == [home]
    lab.nodes.delete(home)
    lab.until(lambda: [pod["spec"]["nodeName"] for pod in lab.pods("job")] == [two if home == one else one], "it moves")


def test_a_node_whose_kubelet_shuts_down_is_lost_at_once(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    lab.start(node_lost_after_s=3600.0)
    lab.submit(elasticjob("job"))
    home = str(lab.until_pods("job", "job-worker-0")["job-worker-0"]["spec"]["nodeName"])
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "node is shutting down"}
    lab.api.patch(f"/api/v1/nodes/{home}/status", {"status": {"conditions": [ready]}})
    lab.until(lambda: [pod["spec"]["nodeName"] for pod in lab.pods("job")] == [two if home == one else one], "it moves")


def test_a_pod_that_is_deleted_on_a_silent_node_is_placed_anew_at_once(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    running = lab.start(node_lost_after_s=3600.0)
    lab.submit(elasticjob("job"))
    home = str(lab.until_pods("job", "job-worker-0")["job-worker-0"]["spec"]["nodeName"])
    _silence(lab, running, home)
    path = f"/api/v1/namespaces/{lab.namespace}/pods/job-worker-0"
    lab.api.delete(path, {"gracePeriodSeconds": 0})  # as the cluster's own eviction ends, or its owner
    lab.until(lambda: [pod["spec"]["nodeName"] for pod in lab.pods("job")] == [two if home == one else one], "it moves")


def _silence(lab: Lab, running: Running, node: str) -> None:
    lab.nodes.stop_kubelet(node)
    _until_known(lab, running, node, ready=False)


def _answer(lab: Lab, running: Running, node: str) -> None:
    lab.nodes.start_kubelet(node)
    _until_known(lab, running, node, ready=True)


def _until_known(lab: Lab, running: Running, node: str, *, ready: bool) -> None:
    def is_known() -> bool:
        found = running.operator.cache.nodes.get(node)
        return found is not None and found.ready is ready and bool(found.spec.taints) is not ready

    lab.until(is_known, f"{node} is {'ready' if ready else 'silent'}, and the operator knows")
    lab.until_rest()


def _writes(lab: Lab) -> list[dict[str, Any]]:
    """What the operator wrote in this namespace, by the API server's log."""
    events = [event for event in lab.plane.audited() if event["user"].get("username") == USER]
    return [
        event
        for event in events
        if event.get("objectRef", {}).get("namespace") == lab.namespace
        and event["verb"] in ("create", "update", "patch", "delete")
    ]


def _uids(pods: dict[str, Body]) -> dict[str, str]:
    return {name: str(pod["metadata"]["uid"]) for name, pod in pods.items()}


def _reason(lab: Lab, name: str) -> str:
    return str(lab.job("ElasticJob", name).get("status", {}).get("scheduling", {}).get("reason", ""))
