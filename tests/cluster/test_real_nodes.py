"""Real nodes run real containers, find each other by name, and die in the ways nodes die."""

import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cluster.host_python import python_pod
from tests.cluster.network import Network
from tests.cluster.real_nodes import RealCluster
from tests.cluster.requests import Api, Body, until

ROOT = Path(__file__).parents[2]
MAKES_A_BRIDGE_AND_DIES = """
import os, signal
from tests.cluster.network import Network
network = Network()
network.up()
print(network.bridge, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SERVES = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000)"


class Pods:
    def __init__(self, cluster: RealCluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self.api: Api = cluster.control_plane.api()
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def run(self, body: Body, phase: str) -> Body:
        """Until it is so; the status then."""
        name = self.api.create(self.path, body)["metadata"]["name"]
        until(lambda: self.status(name)["phase"] == phase, f"{name} is {phase}", story=lambda: self._story(name))
        return self.status(name)

    def status(self, name: str) -> Body:
        status: Body = self.api.get(f"{self.path}/{name}")["status"]
        return status

    def log(self, name: str) -> str:
        return self._cluster.control_plane.kubectl("-n", self._namespace, "logs", name)

    def _story(self, name: str) -> str:
        return self._cluster.control_plane.kubectl("-n", self._namespace, "describe", "pod", name, check=False)


@pytest.fixture
def pods(real_cluster: RealCluster, real_namespace: str) -> Pods:
    return Pods(real_cluster, real_namespace)


def test_a_pod_runs_the_python_of_the_tests_and_says_so(pods: Pods, tmp_path: Path):
    program = f"import msgspec, sterna; open('{tmp_path}/kept', 'w').write('x'); print('I run', sterna.__name__)"
    pods.run(python_pod("hello", "-c", program, node="node2", writable=[tmp_path]), "Succeeded")
    assert pods.log("hello") == "I run sterna\n"
    assert (tmp_path / "kept").read_text() == "x"


def test_an_exit_code_and_a_last_word_reach_the_status(pods: Pods):
    program = "open('/dev/termination-log', 'w').write('so long'); raise SystemExit(3)"
    status = pods.run(python_pod("ends", "-c", program, node="node1"), "Failed")
    (container,) = status["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3
    assert container["state"]["terminated"]["message"] == "so long"


def test_a_pod_has_as_many_gpus_as_its_node_says(pods: Pods, real_cluster: RealCluster):
    nodes = [pods.api.get(f"/api/v1/nodes/{name}") for name in real_cluster.names]
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["2", "2", "2"]
    body = python_pod("uses-them", "-c", "print('ran')", node="node1")
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    pods.run(body, "Succeeded")


def test_pods_find_each_other_by_the_names_of_services(pods: Pods, real_namespace: str):
    body = python_pod("server", "-c", SERVES, node="node1")
    body["metadata"]["labels"] = {"app": "server"}
    address = pods.run(body, "Running")["podIP"]
    for name, more in (("headless", {"clusterIP": "None", "publishNotReadyAddresses": True}), ("virtual", {})):
        spec = {"selector": {"app": "server"}, "ports": [{"port": 8000}], **more}
        pods.api.create(f"/api/v1/namespaces/{real_namespace}/services", {"metadata": {"name": name}, "spec": spec})
    program = f"""
import socket, time, urllib.request
def opened(url):
    for _ in range(100):
        try:
            return urllib.request.urlopen(url, timeout=2).status
        except OSError:
            time.sleep(0.2)
print(opened("http://headless.{real_namespace}.svc:8000"), opened("http://virtual:8000"))
print(socket.gethostbyname("headless"))
try:
    socket.gethostbyname("nowhere.{real_namespace}.svc")
except OSError as error:
    print("no nowhere")
"""
    pods.run(python_pod("client", "-c", program, node="node3"), "Succeeded")
    assert pods.log("client").splitlines() == ["200 200", address, "no nowhere"]


def test_a_pod_reaches_the_test_and_the_api_server(pods: Pods, real_cluster: RealCluster):
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    with _answering(real_cluster.address) as port:
        program = f"""
import os, ssl, urllib.error, urllib.request
print(urllib.request.urlopen("http://{real_cluster.address}:{port}", timeout=20).read().decode())
server = f"https://{{os.environ['KUBERNETES_SERVICE_HOST']}}:{{os.environ['KUBERNETES_SERVICE_PORT']}}/api/v1/pods"
token = {{"Authorization": "Bearer " + open("{account}/token").read()}}
trust = ssl.create_default_context(cafile="{account}/ca.crt")
try:
    urllib.request.urlopen(urllib.request.Request(server, headers=token), context=trust, timeout=20)
except urllib.error.HTTPError as error:
    print(error.code)
"""
        pods.run(python_pod("asks", "-c", program, node="node2"), "Succeeded")
    assert pods.log("asks").splitlines() == ["the test", "403"]


def test_a_power_cut_makes_a_node_not_ready_and_it_comes_back(pods: Pods, real_cluster: RealCluster):
    body = python_pod("victim", "-c", SERVES, node="node3")
    pods.run(body, "Running")
    real_cluster.kill("node3")
    try:
        real_cluster.until_not_ready("node3")
    finally:
        real_cluster.start("node3")
        real_cluster.until_ready("node3")
    pods.run(python_pod("after", "-c", "print('ran')", node="node3"), "Succeeded")


def test_containers_outlive_their_kubelet(pods: Pods, real_cluster: RealCluster):
    address = pods.run(python_pod("server", "-c", SERVES, node="node2"), "Running")["podIP"]
    until(lambda: _open(address), "it serves")
    real_cluster.stop_kubelet("node2")
    try:
        real_cluster.until_not_ready("node2")
        assert _open(address)
    finally:
        real_cluster.start_kubelet("node2")
        real_cluster.until_ready("node2")
    node = pods.api.get("/api/v1/nodes/node2")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"


def test_a_node_that_was_cut_off_is_ready_again_when_it_is_not(real_cluster: RealCluster):
    real_cluster.partition("node1")
    try:
        real_cluster.until_not_ready("node1")
    finally:
        real_cluster.heal("node1")
        real_cluster.until_ready("node1")


def test_two_clusters_on_a_machine_have_different_networks(real_cluster: RealCluster):
    other = Network()
    try:
        other.up()
        assert other.address != real_cluster.address
        links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
        assert other.bridge in links
    finally:
        other.down()


@pytest.mark.usefixtures("real_cluster")
def test_what_a_killed_run_left_is_taken_over():
    killed = subprocess.run([sys.executable, "-c", MAKES_A_BRIDGE_AND_DIES], cwd=ROOT, capture_output=True, check=False)
    bridge = killed.stdout.decode().strip()
    assert (Path("/sys/class/net") / bridge).exists()
    after = Network()
    try:
        assert after.bridge == bridge
        after.up()
    finally:
        after.down()
    assert not (Path("/sys/class/net") / bridge).exists()


def _open(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}:8000/etc/passwd", timeout=5) as answer:
        return bool(answer.status == 200)


@contextmanager
def _answering(address: str) -> Iterator[int]:
    """A server in the test process."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the test")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer((address, 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
