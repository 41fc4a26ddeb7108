"""Nodes that are lost, cordoned, drained, deleted, and pods of others that take room."""

from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import fresh_name, make_namespace
from tests.cluster.requests import until
from tests.engines.kubernetes.operator.lab import Lab, elastic_job, nodes_of, same, tf_job


def stranger(name: str, node: str, *, cpu: str = "1", gpus: int = 0) -> dict[str, Any]:
    """Somebody else's pod."""
    limits = {"cpu": cpu, **({"nvidia.com/gpu": gpus} if gpus else {})}
    container = {"name": "main", "image": "localhost/none:1", "resources": {"limits": limits}}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_r5_what_was_on_a_lost_node_goes_on_elsewhere(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    with lab.operator(node_lost_after_s=0.5):
        lab.create(elastic_job("job", low=1, high=1))
        before = nodes_of(lab.until_pods("job-worker-0"))["job-worker-0"]
        other = two if before == one else one
        lab.nodes.stop_kubelet(before)
        until(lambda: nodes_of(lab.pods()).get("job-worker-0") == other, "it is on the other node", story=lab.story)
        lab.until_pods("job-worker-0")


def test_a_node_that_refuses_a_pod_is_left_alone_and_another_is_tried_at_once(lab: Lab):
    lab.nodes.add(2, gpus=1)
    lab.nodes.habits.hold_starts = True
    refused: list[str] = []

    def refuse() -> str:
        """As a kubelet does that has less to offer than its node says."""
        pods = until(lambda: [pod for pod in lab.pods().values() if pod["metadata"]["uid"] not in refused], "a pod")
        (pod,) = pods
        refused.append(pod["metadata"]["uid"])
        status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
        lab.api.patch(f"/api/v1/namespaces/{lab.namespace}/pods/{pod['metadata']['name']}/status", {"status": status})
        node: str = pod["spec"]["nodeName"]
        return node

    with lab.operator():
        lab.create(elastic_job("job", low=1, high=1))
        tried = [refuse(), refuse()]
        assert sorted(tried) == sorted(lab.nodes.names)
        until(lambda: _reason(lab, "job") == "NodesRefused", "the job says why it waits", story=lab.story)
        assert not lab.pods()
        lab.nodes.habits.hold_starts = False
        (third,) = lab.nodes.add(1, gpus=1)
        assert nodes_of(lab.until_pods("job-worker-0")) == {"job-worker-0": third}


def test_dragon_7_a_worker_of_a_deleted_node_is_placed_anew(lab: Lab):
    one, two = lab.nodes.add(2, gpus=2)
    with lab.operator():
        lab.create(tf_job("job", workers=2, low=2, high=2))
        before = lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")
        here = nodes_of(before)["job-worker-0"]
        other = two if here == one else one
        lab.nodes.delete(here)
        until(lambda: set(nodes_of(lab.pods()).values()) == {other}, "all are on the other node", story=lab.story)
        lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")


def test_a_cordon_keeps_newcomers_away_and_leaves_the_rest_alone(lab: Lab):
    one, two = lab.nodes.add(2, gpus=2)
    with lab.operator():
        lab.create(elastic_job("first", low=1, high=1))
        before = lab.until_pods("first-worker-0")
        here = nodes_of(before)["first-worker-0"]
        lab.nodes.cordon(here)
        lab.create(elastic_job("second", low=1, high=1))
        after = lab.until_pods("first-worker-0", "second-worker-0")
        assert same(["first-worker-0"], before, after)
        assert nodes_of(after)["second-worker-0"] == (two if here == one else one)
        lab.api.delete(f"/api/v1/namespaces/{lab.namespace}/pods/first-worker-0")  # as `kubectl drain` does it
        until(
            lambda: nodes_of(lab.pods()).get("first-worker-0") == (two if here == one else one),
            "it does not come back where nothing new may come",
            story=lab.story,
        )


def test_draining_a_node_moves_its_work_away(lab: Lab):
    one, two = lab.nodes.add(2, gpus=2)
    with lab.operator():
        lab.create(tf_job("job", workers=1, low=1, high=1))
        here = nodes_of(lab.until_pods("job-ps-0", "job-worker-0"))["job-worker-0"]
        other = two if here == one else one
        lab.nodes.cordon(here)
        lab.nodes.annotate(here, {"sterna.dev/drain": "true"})
        until(lambda: set(nodes_of(lab.pods()).values()) == {other}, "all are on the other node", story=lab.story)
        lab.until_pods("job-ps-0", "job-worker-0")


def test_dragon_27_pods_of_others_take_room_until_they_are_gone(lab: Lab):
    (node,) = lab.nodes.add(1, gpus=2, cpu="4")
    path = f"/api/v1/namespaces/{lab.namespace}/pods"
    lab.api.create(path, stranger("theirs", node, cpu="3", gpus=1))
    with lab.operator():
        lab.create(elastic_job("job", low=1, high=2))
        lab.until_pods("theirs", "job-worker-0")
        lab.api.delete(f"{path}/theirs")
        lab.until_pods("job-worker-0", "job-worker-1")


@pytest.mark.parametrize("see_all", [False, True], ids=["only its own", "all"])
def test_s4_an_operator_of_one_namespace_counts_pods_of_others_if_it_may_see_them(
    lab: Lab, control_plane: ControlPlane, see_all: bool
):
    """The room that is taken on a node by pods that it does not see looks free to it; the documentation says so."""
    (node,) = lab.nodes.add(1, gpus=2, cpu="4")
    elsewhere = fresh_name("elsewhere")
    make_namespace(control_plane, elsewhere)
    path = f"/api/v1/namespaces/{elsewhere}/pods"
    lab.api.create(path, stranger("theirs", node, cpu="3", gpus=1))
    with lab.operator(see_all_pods=see_all) as operator:
        lab.create(elastic_job("job", low=1, high=2))
        workers = {"job-worker-0"} if see_all else {"job-worker-0", "job-worker-1"}
        lab.until_pods(*workers)
        until(lambda: operator.operator.at_rest, "all is decided")
        assert lab.pods().keys() == workers
        if see_all:
            lab.api.delete(f"{path}/theirs", {"gracePeriodSeconds": 0})
            lab.until_pods("job-worker-0", "job-worker-1")


def test_what_is_left_of_a_finished_job_takes_room_until_it_is_gone(lab: Lab):
    lab.nodes.add(1, gpus=1)
    lab.nodes.habits.on_stop = lambda _: None
    with lab.operator():
        lab.create(elastic_job("first", low=1, high=1))
        lab.until_pods("first-worker-0")
        lab.create(elastic_job("second", low=1, high=1))
        lab.delete("ElasticJob", "first")
        until(lambda: "deletionTimestamp" in lab.pods()["first-worker-0"]["metadata"], "it is told to go")
        until(lambda: _reason(lab, "second") == "OtherPods", "the other one waits for it", story=lab.story)
        assert lab.pods().keys() == {"first-worker-0"}
        lab.nodes.let_go("first-worker-0")
        lab.until_pods("second-worker-0")


def test_a_node_that_joins_is_used(lab: Lab):
    with lab.operator() as operator:
        operator.until_leads()
        lab.create(elastic_job("job", low=1, high=1))
        lab.until_state("ElasticJob", "job", "Waiting")
        lab.nodes.add(1, gpus=1)
        lab.until_pods("job-worker-0")


def _reason(lab: Lab, name: str) -> str:
    found: str = lab.job("ElasticJob", name).get("status", {}).get("scheduling", {}).get("reason", "")
    return found
