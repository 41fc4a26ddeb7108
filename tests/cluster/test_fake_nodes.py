"""Fake nodes do with pods what kubelets would, as far as the API shows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_kubelets import Run
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.pod_status import Ending, Rejection
from tests.cluster.requests import Api, ApiError, Body, until

ROOT = Path(__file__).parents[2]


def pod(name: str, node: str, policy: str = "Never", containers: tuple[str, ...] = ("main",)) -> Body:
    spec = {
        "nodeName": node,
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": container, "image": "localhost/none:1"} for container in containers],
    }
    return {"metadata": {"name": name}, "spec": spec}


class Pods:
    """Those of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, body: Body) -> Body:
        return self._api.create(self._path, body)

    def delete(self, name: str) -> None:
        self._api.delete(f"{self._path}/{name}")

    def status(self, name: str) -> Body:
        status: Body = self._api.get(f"{self._path}/{name}")["status"]
        return status

    def container(self, name: str) -> Body:
        container: Body = self.status(name)["containerStatuses"][0]
        return container

    def until_phase(self, name: str, phase: str) -> Body:
        until(lambda: self.status(name)["phase"] == phase, f"{name} is {phase}", story=lambda: self.status(name))
        return self.status(name)

    def until_ready(self, name: str, ready: bool = True) -> None:
        until(lambda: _ready(self.status(name)) is ready, f"{name} ready: {ready}", story=lambda: self.status(name))

    def until_gone(self, name: str) -> None:
        until(lambda: name not in self.names(), f"{name} is gone")

    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self._api.items(self._path)]


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane.api(), namespace)


def test_a_bound_pod_runs_and_is_ready_and_a_deleted_one_goes(fake_nodes: FakeNodes, pods: Pods):
    (node,) = fake_nodes.add(gpus=4)
    pods.create(pod("a", node))
    pods.until_ready("a")
    assert pods.container("a")["state"]["running"]
    pods.delete("a")
    pods.until_gone("a")


def test_a_pod_of_a_node_that_is_not_ours_is_left_alone(fake_nodes: FakeNodes, pods: Pods):
    (node,) = fake_nodes.add()
    pods.create(pod("theirs", "somewhere-else"))
    pods.create(pod("ours", node))
    pods.until_ready("ours")
    assert pods.status("theirs")["phase"] == "Pending"


def test_a_node_has_what_it_was_given(fake_nodes: FakeNodes, control_plane: ControlPlane):
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    names = fake_nodes.add(2, gpus=3, cpu="7", labels={"zone": "b"}, taints=[taint])
    bodies = [control_plane.api().get(f"/api/v1/nodes/{name}") for name in names]
    assert [body["status"]["allocatable"]["nvidia.com/gpu"] for body in bodies] == ["3", "3"]
    assert [body["spec"]["taints"] for body in bodies] == [[taint], [taint]]
    assert {body["metadata"]["labels"]["zone"] for body in bodies} == {"b"}
    assert {condition["status"] for body in bodies for condition in body["status"]["conditions"]} == {"True"}


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [
        pytest.param("Never", 0, "Succeeded", 0, id="done"),
        pytest.param("Never", 3, "Failed", 0, id="failed, for good"),
        pytest.param("OnFailure", 0, "Succeeded", 0, id="done, nothing to restart"),
        pytest.param("OnFailure", 3, "Running", 1, id="failed, restarted in place"),
        pytest.param("Always", 0, "Running", 1, id="done, restarted all the same"),
    ],
)
def test_the_restart_policy_says_what_an_exit_means(
    fake_nodes: FakeNodes, pods: Pods, policy: str, code: int, phase: str, restarts: int
):
    (node,) = fake_nodes.add()
    pods.create(pod("a", node, policy))
    fake_nodes.exit("a", code, message="bye")
    assert pods.status("a")["phase"] == phase
    container = pods.container("a")
    assert container["restartCount"] == restarts
    terminated = container["lastState" if restarts else "state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (code, "bye")
    assert bool(container["state"].get("running")) == bool(restarts)


def test_one_container_of_two_that_ends_leaves_the_pod_running(fake_nodes: FakeNodes, pods: Pods):
    (node,) = fake_nodes.add()
    pods.create(pod("a", node, containers=("main", "side")))
    fake_nodes.exit("a", 0, container="main")
    assert pods.status("a")["phase"] == "Running"
    fake_nodes.exit("a", 0, container="side")
    assert pods.status("a")["phase"] == "Succeeded"


def test_a_deleted_pod_says_its_last_word_before_it_goes(
    fake_nodes: FakeNodes, pods: Pods, control_plane: ControlPlane
):
    (node,) = fake_nodes.add()
    fake_nodes.habits.on_stop = lambda _: None
    created = pods.create(pod("a", node))["metadata"]
    pods.until_ready("a")
    pods.delete("a")
    assert pods.status("a")["phase"] == "Running", "it stays until told"
    fake_nodes.let_go("a", code=0, message='{"step": 7}')
    pods.until_gone("a")
    assert _words_of(control_plane, created) == ['{"step": 7}']


def test_pods_can_be_kept_from_starting_and_from_becoming_ready(fake_nodes: FakeNodes, pods: Pods):
    fake_nodes.habits.hold_starts = True
    fake_nodes.habits.becomes_ready = False
    (node,) = fake_nodes.add()
    for name in ("a", "b"):
        pods.create(pod(name, node))
    fake_nodes.start("b")
    assert (pods.status("a")["phase"], pods.status("b")["phase"]) == ("Pending", "Running")
    assert not _ready(pods.status("b"))
    fake_nodes.ready("b", True)
    assert _ready(pods.status("b"))


def test_a_silent_kubelet_does_nothing_until_it_is_back(fake_nodes: FakeNodes, pods: Pods, control_plane: ControlPlane):
    (node,) = fake_nodes.add()
    pods.create(pod("a", node))
    pods.until_ready("a")
    fake_nodes.stop_kubelet(node)
    body = control_plane.api().get(f"/api/v1/nodes/{node}")
    assert [condition["status"] for condition in body["status"]["conditions"]] == ["Unknown"]
    assert {taint["effect"] for taint in body["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    assert not _ready(pods.status("a"))
    pods.delete("a")
    pods.create(pod("b", node))
    assert pods.names() == ["a", "b"]
    fake_nodes.start_kubelet(node)
    pods.until_gone("a")
    pods.until_ready("b")
    assert "taints" not in control_plane.api().get(f"/api/v1/nodes/{node}")["spec"]


def test_nodes_are_cordoned_tainted_labelled_and_deleted(fake_nodes: FakeNodes, control_plane: ControlPlane):
    one, two = fake_nodes.add(2)
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    fake_nodes.cordon(one)
    fake_nodes.label(one, {"a": "b"})
    fake_nodes.delete(two)
    body = control_plane.api().get(f"/api/v1/nodes/{one}")
    assert body["spec"]["unschedulable"] is True
    assert body["metadata"]["labels"]["a"] == "b"
    fake_nodes.cordon(one, False)
    fake_nodes.taint(one, taint)
    assert control_plane.api().get(f"/api/v1/nodes/{one}")["spec"] == {"taints": [taint]}
    with pytest.raises(ApiError, match="404"):
        control_plane.api().get(f"/api/v1/nodes/{two}")


def test_fake_kubelets_go_on_after_the_api_server_was_away(
    fake_nodes: FakeNodes, pods: Pods, control_plane: ControlPlane
):
    (node,) = fake_nodes.add()
    pods.create(pod("a", node))
    pods.until_ready("a")
    control_plane.restart_apiserver()
    pods.create(pod("b", node))
    pods.until_ready("b")
    pods.delete("a")
    pods.until_gone("a")


def test_a_process_of_its_own_plays_many_nodes(control_plane: ControlPlane, namespace: str, pods: Pods):
    kubeconfig = control_plane.kubeconfig()
    command = [sys.executable, "-m", "tests.cluster.fake_nodes", "--kubeconfig", str(kubeconfig), "--nodes", "50"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        names = [f"p{index}" for index in range(100)]
        for index, name in enumerate(names):
            pods.create(pod(name, f"node-{index % 50}"))
        for name in names:
            pods.until_ready(name)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert [node for node in control_plane.api().items("/api/v1/nodes") if node["metadata"]["name"] == "node-49"] == []
    assert pods.names() == []


def _ready(status: Body) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", []))


def _words_of(control_plane: ControlPlane, metadata: Body) -> list[str]:
    """The termination messages in the past events of a pod."""
    since = f"fieldSelector=metadata.name%3D{metadata['name']}&resourceVersion={metadata['resourceVersion']}"
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods?watch=1&timeoutSeconds=1&{since}"
    states = [
        each["state"]
        for line in control_plane.api().text(path).splitlines()
        for each in json.loads(line)["object"]["status"].get("containerStatuses", [])
    ]
    return sorted({state["terminated"]["message"] for state in states if "terminated" in state})


def test_a_kubelet_that_refuses_a_pod_says_why_and_never_starts_it(fake_nodes: FakeNodes, pods: Pods):
    (node,) = fake_nodes.add()
    fake_nodes.habits.admission = lambda _: Rejection("OutOfcpu", "Node didn't have enough resource: cpu")
    pods.create(pod("a", node))
    status = pods.until_phase("a", "Failed")
    assert (status["reason"], status.get("containerStatuses")) == ("OutOfcpu", None)
    pods.delete("a")
    pods.until_gone("a")


def test_a_program_that_was_given_ends_by_itself_unless_programs_pause(fake_nodes: FakeNodes, pods: Pods):
    (node,) = fake_nodes.add()
    fake_nodes.habits.programs_pause = True
    fake_nodes.habits.program = lambda _, restarts: Run(0.0, Ending(0 if restarts else 3))
    pods.create(pod("a", node, "OnFailure"))
    pods.until_ready("a")
    assert pods.container("a")["restartCount"] == 0
    fake_nodes.habits.programs_pause = False
    pods.until_phase("a", "Succeeded")
    assert pods.container("a")["restartCount"] == 1
    assert pods.container("a")["lastState"]["terminated"]["exitCode"] == 3


def test_a_node_that_was_deleted_and_is_registered_again_goes_on_with_its_pods(
    fake_nodes: FakeNodes, pods: Pods, control_plane: ControlPlane
):
    (node,) = fake_nodes.add(gpus=2)
    pods.create(pod("a", node))
    pods.until_ready("a")
    fake_nodes.delete(node)
    pods.create(pod("b", node))
    fake_nodes.register_again(node)
    pods.until_ready("b")
    pods.until_ready("a")
    assert control_plane.api().get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["nvidia.com/gpu"] == "2"
