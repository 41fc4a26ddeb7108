"""Clusters for pytest. A machine that cannot have one skips the test, and fails it with STERNA_REQUIRE=1.

A control plane is shared by all tests of a worker; a test gets a namespace of its own in it. Files whose tests need
real nodes are named in `tests/conftest.py`, so that one worker has them all and there is one such cluster.
"""

import re
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.cluster.binaries import Binaries, NoBinaries, find_binaries
from tests.cluster.chaos import ChaosProxy
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.real_nodes import RealCluster, why_not
from tests.cluster.requests import APPLY, Body, until
from tests.needs import absent

ROOT = Path(__file__).parents[2]
USERS: dict[str, tuple[str, ...]] = {"sterna": (), "alice": (), "bob": ()}  # nobody grants them anything but a test


@pytest.fixture(scope="session")
def kube_binaries() -> Binaries:
    """kube-apiserver and its siblings."""
    try:
        binaries = find_binaries()
    except NoBinaries as error:
        absent(str(error))
    missing = [program for program in ("etcd", "openssl", "setpriv", "kubectl") if not binaries.has(program)]
    if missing:
        absent(f"a cluster needs {', '.join(missing)}")
    return binaries


@pytest.fixture(scope="session")
def control_plane(kube_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """On loopback, without nodes. Users: admin, and without any rights sterna, alice and bob, who are audited."""
    directory = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(kube_binaries, directory, users=USERS, node_lifecycle=False, audit=True) as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh one, whose service account is there. It is deleted afterwards, and nobody waits for that."""
    name = fresh_name(request.node.name)
    make_namespace(control_plane, name)
    yield name
    control_plane.api().delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def fake_nodes(control_plane: ControlPlane, namespace: str) -> Iterator[FakeNodes]:
    """None to begin with: `fake_nodes.add(3, gpus=8)`. They go after the test, with every pod on them."""
    with FakeNodes(control_plane.access(), namespace=namespace) as nodes:
        yield nodes


@pytest.fixture
def chaos(control_plane: ControlPlane) -> Iterator[ChaosProxy]:
    """Another door to the same API server, which behaves well until a test injects a fault."""
    with ChaosProxy(control_plane) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def real_cluster(kube_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """node1 to node3 with two made-up GPUs each. Whoever breaks a node repairs it: `start`, `heal`, `until_ready`."""
    trouble = why_not(kube_binaries)
    if trouble is not None:
        absent(trouble)
    directory = tmp_path_factory.mktemp("real-cluster")
    with RealCluster(kube_binaries, directory, nodes=3, gpus=2, users=USERS, audit=True) as cluster:
        yield cluster


@pytest.fixture
def real_namespace(real_cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """As `namespace`, in the cluster with real nodes."""
    name = fresh_name(request.node.name)
    make_namespace(real_cluster.control_plane, name)
    yield name
    real_cluster.control_plane.api().delete(f"/api/v1/namespaces/{name}")


def fresh_name(about: str) -> str:
    """A name for an object that no other test has, and a reader of logs understands."""
    words = re.sub(r"[^a-z0-9]+", "-", about.lower().removeprefix("test_"))
    return f"{words[:30].strip('-')}-{secrets.token_hex(3)}"


def make_namespace(control_plane: ControlPlane, name: str) -> None:
    """With what the controllers put into every namespace: pods are accepted, and nothing turns up unasked later."""
    api = control_plane.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    home = f"/api/v1/namespaces/{name}"
    if control_plane.has_controllers:
        until(partial(api.get, f"{home}/configmaps/kube-root-ca.crt"), f"{name} has its certificate", every_s=0.02)
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "localhost/none:1"}]}}
    until(partial(api.create, f"{home}/pods?dryRun=All", pod), f"{name} accepts pods", every_s=0.02)


def install_crds(control_plane: ControlPlane) -> None:
    """Our kinds, from deploy/crds, served when this returns. Doing it again changes nothing."""
    api = control_plane.api()
    files = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
    assert files, "there are no custom resource definitions in deploy/crds"
    definitions: list[Body] = [body for file in files for body in yaml.safe_load_all(file.read_text()) if body]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in definitions:
        name = definition["metadata"]["name"]
        api.patch(f"{path}/{name}?fieldManager=tests&force=true", definition, APPLY)
    for definition in definitions:
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        for version in definition["spec"]["versions"]:
            if version["served"]:
                kind = f"/apis/{group}/{version['name']}/{plural}"
                until(partial(api.get, kind), f"{kind} is served", every_s=0.05)
