"""Voda's acceptance rows on a real API server: one test for each, named after its row. The kubelets are played."""

import threading
from collections import Counter
from typing import Any

import yaml

from sterna.engines.kubernetes.apiserver.port import EVENTS
from tests.cluster.requests import ApiError
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab

GPUS = 2


def started(lab: Lab, *, nodes: int = 2, **settings: Any) -> None:
    lab.nodes.add(nodes, gpus=GPUS)
    lab.start(**settings)


def workers(name: str, *indices: int) -> list[str]:
    return [f"{name}-worker-{index}" for index in indices]


class Peak:
    """The most GPUs that pods on one node ever asked for together, pods that are leaving included."""

    def __init__(self, lab: Lab) -> None:
        self.most = 0
        self._lab = lab
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> int:
        self._over.set()
        self._thread.join()
        return self.most

    def _look(self) -> None:
        while not self._over.wait(0.02):
            try:
                pods = self._lab.all_pods()
            except (ApiError, OSError):
                continue
            used = Counter[str]()
            for pod in pods:
                if pod["status"].get("phase") in ("Pending", "Running"):
                    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
                    used[pod["spec"].get("nodeName", "")] += int(limits.get("nvidia.com/gpu", 0))
            self.most = max(self.most, *used.values(), 0)


def test_voda_4_a_deleted_job_makes_room_and_a_waiting_one_disturbs_nobody(lab: Lab):
    started(lab, nodes=1)
    lab.submit(elasticjob("first", workers=(2, 2)))
    first = lab.until_pods("first", *workers("first", 0, 1))
    lab.submit(elasticjob("second", workers=(2, 2)) + "---" + elasticjob("third", workers=(2, 2)))
    lab.until(lambda: lab.phase("ElasticJob", "third") == "Waiting", "the third one waits")
    lab.delete("ElasticJob", "second")
    lab.until_rest()
    assert {p["metadata"]["uid"] for p in lab.pods("first")} == {p["metadata"]["uid"] for p in first.values()}
    lab.delete("ElasticJob", "first")
    lab.until_pods("third", *workers("third", 0, 1))


def test_voda_10_room_is_let_go_of_before_it_is_taken_up_and_no_node_is_ever_overfull(lab: Lab):
    started(lab)
    lab.nodes.habits.stop_s = 0.3  # pods take their time to go
    peak = Peak(lab)
    lab.submit(tfjob("elastic", workers=(1, 1, 4)))
    lab.until_pods("elastic", "elastic-ps-0", *workers("elastic", 0, 1, 2, 3))
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", *workers("gang", 0, 1))
    lab.submit(elasticjob("late", workers=(1, 1)))
    lab.until_pods("late", "late-worker-0")
    lab.delete("ElasticJob", "gang")
    lab.until(lambda: len(lab.pods("elastic")) == 4, "the elastic one grows again")
    lab.until_rest()
    assert peak.close() <= GPUS


def test_voda_11_a_policy_that_does_not_exist_changes_nothing(lab: Lab):
    started(lab)
    lab.submit(tfjob("elastic", workers=(1, 1, 4)))
    before = lab.until_pods("elastic", "elastic-ps-0", *workers("elastic", 0, 1, 2, 3))
    path = f"/api/v1/namespaces/{lab.namespace}/configmaps"
    lab.api.create(path, {"metadata": {"name": "sterna-config"}, "data": {"policy": "no-such-policy"}})
    lab.until(lambda: lab.events("sterna-config"), "it is told")
    lab.submit(elasticjob("gang", workers=(2, 2)))  # decisions go on, by the policy that was there
    lab.until_pods("gang", *workers("gang", 0, 1))
    after = {pod["metadata"]["uid"] for pod in lab.pods("elastic")}
    assert after <= {pod["metadata"]["uid"] for pod in before.values()}


def test_voda_22_each_worker_has_one_node_the_launcher_any_and_a_pod_out_of_place_is_put_right(lab: Lab):
    started(lab)
    lab.submit(mpijob("hosts", workers=(3, 3, 3)))
    pods = lab.until_pods("hosts", "hosts-launcher-0", *workers("hosts", 0, 1, 2))
    seats = lab.job("MPIJob", "hosts")["status"]["scheduling"]["seats"]
    planned = {f"hosts-{'-'.join(seat.split('/')[:2])}": seat.split("/")[2] for seat in seats}
    assert {name: pod["spec"]["nodeName"] for name, pod in pods.items()} == planned
    wrong = next(name for name in lab.nodes.names if name != planned["hosts-worker-0"])
    body = pods["hosts-worker-0"]
    running = lab.operators[0]
    running.kill()
    path = f"/api/v1/namespaces/{lab.namespace}/pods"
    lab.api.delete(f"{path}/hosts-worker-0", {"gracePeriodSeconds": 0})
    lab.until(lambda: "hosts-worker-0" not in lab.names("hosts"), "it is gone")
    keep = {key: body["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    spec = {"nodeName": wrong, "containers": [{"name": "mpi", "image": "localhost/none:1"}]}
    lab.api.create(path, {"metadata": keep, "spec": spec})
    running.restart()
    lab.until(lambda: _node(lab, "hosts-worker-0") == planned["hosts-worker-0"], "it sits where it should")


def test_voda_28_a_completion_is_told_once(lab: Lab):
    started(lab)
    lab.submit(tfjob("job1", workers=(2, 2, 2), clean="None"))
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    for index in (0, 1):
        lab.nodes.exit(f"job1-worker-{index}", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.operators[0].restart()
    lab.until_rest()
    lab.until(lambda: "TFJobSucceeded" in lab.reasons("job1"), "it is told")
    (event,) = [event for event in lab.events("job1") if event["reason"] == "TFJobSucceeded"]
    assert event.get("count", 1) == 1


def test_voda_28_a_completion_is_told_once_by_an_operator_that_was_killed_before_telling_it(lab: Lab):
    def telling(verb: str, given: tuple[Any, ...], _: dict[str, Any]) -> bool:
        return verb == "create" and given[0] == EVENTS and given[1]["reason"] == "TFJobSucceeded"

    lab.nodes.add(2, gpus=GPUS)
    running = lab.start(dies_of=telling)
    lab.submit(tfjob("job1", workers=(2, 2, 2), clean="None"))
    lab.until_pods("job1", "job1-ps-0", *workers("job1", 0, 1))
    for index in (0, 1):
        lab.nodes.exit(f"job1-worker-{index}", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until(lambda: "TFJobSucceeded" in lab.reasons("job1"), "it is told")
    assert running.lives == 2
    running.restart()
    lab.until_rest()
    lab.until(lambda: running.operator.carrier.has_told_all, "everything is told")
    (event,) = [event for event in lab.events("job1") if event["reason"] == "TFJobSucceeded"]
    assert event.get("count", 1) == 1


def test_voda_30_the_host_list_follows_ready_workers_and_the_launcher_is_nudged(lab: Lab):
    started(lab, nudge=True)
    lab.submit(mpijob("hosts", workers=(1, 1, 4)))
    lab.until_pods("hosts", "hosts-launcher-0", *workers("hosts", 0, 1, 2, 3))
    lab.until(lambda: _hosts(lab) == workers("hosts", 0, 1, 2, 3), "all four are listed")
    nudged = _nudge(lab)
    lab.nodes.ready("hosts-worker-2", False)
    lab.until(lambda: _hosts(lab) == workers("hosts", 0, 1, 3), "one is not ready and not listed")
    lab.until(lambda: _nudge(lab) != nudged, "the launcher's kubelet is told")


def test_voda_31_jobs_of_two_accelerators_never_share_a_node(lab: Lab):
    lab.nodes.add(1, gpus=GPUS, labels={"sterna.dev/accelerator": "a100"}, prefix="old")
    lab.nodes.add(1, gpus=GPUS, labels={"vodascheduler/accelerator": "v100"}, prefix="new")
    lab.start()
    for name, kind in (("one", "a100"), ("two", "v100"), ("three", "h100")):
        body = yaml.safe_load(elasticjob(name, workers=(1, 2)))
        body["metadata"]["annotations"] = {"sterna.dev/accelerator": kind}
        lab.submit(yaml.safe_dump(body))
    one = lab.until_pods("one", *workers("one", 0, 1))
    two = lab.until_pods("two", *workers("two", 0, 1))
    assert {pod["spec"]["nodeName"] for pod in one.values()} == {"old-0"}
    assert {pod["spec"]["nodeName"] for pod in two.values()} == {"new-1"}
    assert lab.pods("three") == []


def test_voda_32_without_placement_sizes_are_ours_and_nodes_the_clusters(lab: Lab):
    started(lab, binding="none")
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until(lambda: lab.names("gang") == workers("gang", 0, 1), "both pods are made")
    assert [pod["spec"].get("nodeName") for pod in lab.pods("gang")] == [None, None]
    path = f"/api/v1/namespaces/{lab.namespace}/pods"
    for name in workers("gang", 0, 1):  # as the cluster's own scheduler would
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        lab.api.create(f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target})
    lab.until_pods("gang", *workers("gang", 0, 1))
    lab.until_true("ElasticJob", "gang", "Running")


def test_with_the_binding_subresource_pods_are_bound_as_a_scheduler_does_it(lab: Lab):
    started(lab, binding="binding")
    lab.submit(elasticjob("gang", workers=(2, 2)))
    pods = lab.until_pods("gang", *workers("gang", 0, 1))
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"sterna"}


def _node(lab: Lab, name: str) -> str:
    return next((str(pod["spec"].get("nodeName")) for pod in lab.pods() if pod["metadata"]["name"] == name), "")


def _hosts(lab: Lab) -> list[str]:
    text: str = lab.api.get(f"/api/v1/namespaces/{lab.namespace}/configmaps/hosts-config")["data"]["hostfile"]
    return [line.split(".")[0] for line in text.splitlines()]


def _nudge(lab: Lab) -> str | None:
    pod = next(pod for pod in lab.pods("hosts") if pod["metadata"]["name"] == "hosts-launcher-0")
    found: str | None = pod["metadata"].get("annotations", {}).get("sterna.dev/nudge")
    return found
