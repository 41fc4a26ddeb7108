"""What a pod takes: our sum beside kube-scheduler's own, at the boundary.

Pods are drawn at random, another seed each time: containers and init containers with requests, limits or neither, some
of a runtime class that has overhead. For each there is a node that has exactly what we count, one that has a thousandth
of a CPU less, and one that has a byte less; kube-scheduler must take the first and no other. Sidecars and resources of
the pod as a whole are not in here: the API server of these tests is older than both, and drops them.
"""

import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.model.jobs import Role
from sterna.model.resources import Resources
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.requests import until
from tests.wire.manifests.builders import with_pod, workload

Body = dict[str, Any]

PODS = int(os.environ.get("STERNA_PODS", "100")) // 10  # three nodes each
OVERHEAD = Resources(250, 64 << 20)
FITS, SHORT_OF_CPU, SHORT_OF_MEMORY = "fits", "cpu", "memory"


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.start_scheduler()
    yield control_plane
    control_plane.stop_scheduler()


@pytest.fixture
def sandboxed(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """A runtime class with overhead. It belongs to no namespace."""
    name, path = f"sandboxed-{namespace}", "/apis/node.k8s.io/v1/runtimeclasses"
    fixed = {"cpu": f"{OVERHEAD.cpu_milli}m", "memory": str(OVERHEAD.memory_bytes)}
    control_plane.api().create(path, {"metadata": {"name": name}, "handler": "x", "overhead": {"podFixed": fixed}})
    yield name
    control_plane.api().delete(f"{path}/{name}")


def test_kube_scheduler_takes_a_pod_where_there_is_what_we_count_and_nowhere_else(
    scheduler: ControlPlane, fake_nodes: FakeNodes, namespace: str, sandboxed: str
):
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    path, api = f"/api/v1/namespaces/{namespace}/pods", scheduler.api()
    expected: dict[str, bool] = {}
    specs: dict[str, Body] = {}
    for number in range(PODS):
        spec = _spec(chance)
        written = workload(with_pod(**spec)).template(Role.WORKER).request
        if chance.random() < 0.5:
            spec["runtimeClassName"] = sandboxed
            written = written.plus(OVERHEAD)
        admitted = api.create(f"{path}?dryRun=All", {"metadata": {"name": "trial"}, "spec": spec})
        taken = request_of_pod(msgspec.convert(admitted, Pod))
        assert written == taken, f"seed {seed}: {spec}"
        for less, room in (
            (FITS, taken),
            (SHORT_OF_CPU, taken.minus(Resources(1, 0))),
            (SHORT_OF_MEMORY, taken.minus(Resources(0, 1))),
        ):
            name = f"pod-{number}-{less}"
            fake_nodes.add(cpu=f"{room.cpu_milli}m", memory=str(room.memory_bytes), labels={"for": name})
            specs[name], expected[name] = {**spec, "nodeSelector": {"for": name}}, less == FITS
    for name, spec in specs.items():
        api.create(path, {"metadata": {"name": name}, "spec": spec})

    def verdicts() -> dict[str, bool] | None:
        found = {pod["metadata"]["name"]: _verdict(pod) for pod in api.items(path)}
        return {name: bool(verdict) for name, verdict in found.items()} if None not in found.values() else None

    theirs = until(verdicts, "kube-scheduler has looked at every pod")
    assert theirs is not None
    wrong = {name: specs[name] for name in expected if expected[name] != theirs[name]}
    assert not wrong, f"seed {seed}"


def _verdict(pod: Body) -> bool | None:
    """None: kube-scheduler has not looked at it yet."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = {found["type"]: found for found in pod.get("status", {}).get("conditions", ())}
    return False if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable" else None


def _spec(chance: random.Random) -> Body:
    """The first container asks for something of everything, so that there is a boundary."""
    containers = [_container("pytorch", chance, always=True)]
    containers += [_container(f"beside-{number}", chance) for number in range(chance.choice((0, 1, 2)))]
    first = [_container(f"first-{number}", chance) for number in range(chance.choice((0, 1, 3)))]
    return {"containers": containers, **({"initContainers": first} if first else {})}


def _container(name: str, chance: random.Random, *, always: bool = False) -> Body:
    resources: Body = {}
    for resource, amounts in (("cpu", ("100m", "1", "2500m", "0.3")), ("memory", ("64Mi", "1G", "1500M", "123456789"))):
        kind = chance.choice(("requests", "limits")) if always or chance.random() < 0.7 else None
        if kind is not None:
            resources.setdefault(kind, {})[resource] = chance.choice(amounts)
    return {"name": name, "image": "localhost/none:1", "command": ["true"], "resources": resources}
