"""The console of a namespace of its own, with our kinds installed."""

from contextlib import suppress

import pytest

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import fresh_name, install_crds
from tests.cluster.requests import ApiError, until
from tests.interfaces.cluster.console import OPERATOR, Console, console_of
from tests.interfaces.cluster.manifests import elastic
from tests.interfaces.cluster.standings import moved


@pytest.fixture(scope="session")
def kinds(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


@pytest.fixture
def console(kinds: ControlPlane, namespace: str, tmp_path) -> Console:
    return console_of(kinds, namespace, tmp_path)


@pytest.fixture
def operator_namespace(kinds: ControlPlane) -> str:
    """Where an operator would be; nothing of it is there when a test begins."""
    api = kinds.api()
    config = f"/api/v1/namespaces/{OPERATOR}/configmaps/sterna-config"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR}/leases/sterna"
    with suppress(ApiError):  # another test made it
        api.create("/api/v1/namespaces", {"metadata": {"name": OPERATOR}})
    for path in (config, lease):
        with suppress(ApiError):  # it is not there
            api.delete(path)
    assert OPERATOR in [one["metadata"]["name"] for one in api.items("/api/v1/namespaces")]
    return OPERATOR


@pytest.fixture
def trained(console: Console, fake_nodes: FakeNodes) -> list[str]:
    """The job `mnist` runs on these two nodes, as an operator would have left it."""
    nodes = fake_nodes.add(2, gpus=4, prefix=fresh_name("node"))
    console.submit(elastic("mnist"))
    condition = {"type": "Running", "status": "True", "reason": "ElasticJobRunning", "message": "it trains"}
    console.stand(
        ELASTIC_JOBS,
        "mnist",
        moved(nodes[1], nodes[0]),
        conditions=[{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    )
    for ordinal, node in enumerate(nodes):
        console.pod(ELASTIC_JOBS, "mnist", "worker", ordinal, node, **{"sterna.dev/incarnation": "2"})
    until(lambda: all(pod["status"]["phase"] == "Running" for pod in fake_nodes.pods()), "the pods run")
    return nodes
