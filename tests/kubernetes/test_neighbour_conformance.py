"""Beside which pods a pod may be: the core's answer beside kube-scheduler's own, pod by pod and node by node.

Nodes with labels and pods on them are drawn at random, another seed each time; so are pods with required pod affinity
and anti-affinity, topology spread and host ports. Each pod is put to kube-scheduler for one node: every node has a
taint of its own, and the pod tolerates that of this node alone, which no rule between pods looks at. A pod that is let
in stays, and is a neighbour of those that come after it; what we know of it is read back from the API server, as an
operator reads it. Once many are there, a round begins on nodes of its own and in namespaces of its own.
"""

import json
import os
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import NodeObject, Pod
from sterna.engines.kubernetes.world.node_objects import node_of
from sterna.engines.kubernetes.world.pod_traits import traits_of_pod
from sterna.model.ids import NodeId
from sterna.model.jobs import JobSpec, Role
from sterna.model.neighbours import Neighbourhood, PlacedPod
from sterna.model.nodes import Node
from sterna.placement.tenants import Tenants
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import fresh_name, make_namespace
from tests.cluster.requests import until
from tests.wire.manifests.builders import with_pod, workload

Body = dict[str, Any]

NODES = 6  # of a round
TENANTS = 5  # that are there when a round begins
QUESTIONS = 25  # of a round
PODS = int(os.environ.get("STERNA_PODS", "100"))  # `make soak` asks for more
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
KEYS = (HOSTNAME, HOSTNAME, "zone", "zone", "rack")
APPS = ("a", "b", "c")
OUR_PORT = 23456  # that every pod of a PyTorchJob of ours opens


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.start_scheduler()
    yield control_plane
    control_plane.stop_scheduler()


class Round(NamedTuple):
    plane: ControlPlane
    number: int
    spaces: tuple[str, str]  # pods that are asked about are in the first; others may be in either
    nodes: dict[str, Node]

    def pods(self) -> list[Pod]:
        found = [body for space in self.spaces for body in self.plane.api().items(f"/api/v1/namespaces/{space}/pods")]
        return [msgspec.convert(body, Pod) for body in found]

    def admits(self, spec: JobSpec, name: str) -> bool:
        """Our answer, from what the API server shows."""
        there = tuple(
            PlacedPod(traits_of_pod(pod), NodeId(pod.spec.node_name)) for pod in self.pods() if pod.spec.node_name
        )
        tenants = Tenants(Neighbourhood(tuple(self.nodes.values()), there, {}, ()))
        at = list(self.nodes).index(name)
        return self.nodes[name].admits(spec.demands) and bool(
            tenants.gate(spec, spec.traits_of(Role.WORKER)).open()[at]
        )


def test_the_core_lets_a_pod_beside_others_exactly_where_kube_scheduler_does(
    scheduler: ControlPlane, fake_nodes: FakeNodes, request: pytest.FixtureRequest
):
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    answers: list[bool] = []
    for number in range(-(-PODS // QUESTIONS)):
        here = _begun(chance, scheduler, fake_nodes, number, fresh_name(request.node.name))
        for question in range(min(QUESTIONS, PODS - len(answers))):
            name = chance.choice(list(here.nodes))
            written, labels = _pod(chance, here, name), {"app": chance.choice(APPS)}
            spec = _job(written, labels, here)
            ours = here.admits(spec, name)
            labels = dict(spec.traits_of(Role.WORKER).labels)
            theirs = _answer(here, f"pod-{question}", labels, written)
            there = "\n".join(f"{pod.spec.node_name}: {pod.metadata.labels} {pod.spec}" for pod in here.pods())
            assert ours == theirs, (
                f"seed {seed}, round {number}, pod {question}: we say {ours} of {name} for {labels}\n"
                f"{json.dumps(written, indent=1)}\n{here.nodes}\n{there}"
            )
            answers.append(ours)
    assert 0 < sum(answers) < len(answers)


def _begun(chance: random.Random, plane: ControlPlane, fake: FakeNodes, number: int, name: str) -> Round:
    spaces = (f"{name[:50]}-{number}", f"{name[:50]}-{number}-x")
    for space in spaces:
        make_namespace(plane, space)
    names: list[str] = []
    for _ in range(NODES):
        labels = {"zone": chance.choice("xy"), "rack": chance.choice("123")}
        labels = {key: value for key, value in labels.items() if chance.random() < 0.9}
        hostname = f"node-{len(fake.names)}"
        names += fake.add(
            labels={**labels, HOSTNAME: hostname, "round": str(number)},
            taints=[{"key": "only", "value": hostname, "effect": "NoSchedule"}],
            pods=1000,
        )
    nodes = {name: node_of(msgspec.convert(plane.api().get(f"/api/v1/nodes/{name}"), NodeObject)) for name in names}
    here = Round(plane, number, spaces, nodes)
    for tenant in range(TENANTS):
        spec = {**_rules(chance, here, guest=True), "nodeName": chance.choice(names)}
        labels = {"app": chance.choice(APPS)} if chance.random() < 0.8 else {}
        _create(here, f"tenant-{tenant}", labels, spec, space=chance.choice(spaces))
    return here


def _job(written: Body, labels: dict[str, str], here: Round) -> JobSpec:
    manifest = with_pod(**written)
    manifest["metadata"]["namespace"] = here.spaces[0]
    template = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": labels}
    template["spec"]["containers"] = [{"name": "pytorch", "image": "i", "command": ["x"], **written["containers"][0]}]
    return workload(manifest).job_spec(submitted_s=0.0)


def _answer(here: Round, name: str, labels: dict[str, str], spec: Body) -> bool:
    """kube-scheduler's; a pod that it does not let in is taken away, before a change lets it in after all."""
    path = f"/api/v1/namespaces/{here.spaces[0]}/pods"
    _create(here, name, labels, spec, space=here.spaces[0])

    def verdict() -> list[bool] | None:
        pod = here.plane.api().get(f"{path}/{name}")
        conditions = {found["type"]: found for found in pod.get("status", {}).get("conditions", ())}
        if pod["spec"].get("nodeName"):
            return [True]
        return [False] if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable" else None

    found = until(verdict, f"kube-scheduler has looked at {name}")
    assert found is not None
    if not found[0]:
        here.plane.api().delete(f"{path}/{name}", {"gracePeriodSeconds": 0})
    return bool(found[0])


def _create(here: Round, name: str, labels: dict[str, str], spec: Body, *, space: str) -> None:
    containers = [{"name": "c", "image": "i", **spec["containers"][0]}]
    if spec.get("hostNetwork"):
        containers[0]["ports"] = [*containers[0].get("ports", ()), {"containerPort": OUR_PORT}]
    body = {"metadata": {"name": name, "labels": labels}, "spec": {**spec, "containers": containers}}
    here.plane.api().create(f"/api/v1/namespaces/{space}/pods", body)


# -- what is drawn ----------------------------------------------------------------------------------------------------


def _pod(chance: random.Random, here: Round, node: str) -> Body:
    return {
        **_rules(chance, here, guest=False),
        "nodeSelector": {"round": str(here.number)},
        "tolerations": [{"key": "only", "operator": "Equal", "value": node, "effect": "NoSchedule"}],
    }


def _rules(chance: random.Random, here: Round, *, guest: bool) -> Body:
    spec: Body = {"containers": [{}], "affinity": {}}
    if chance.random() < 0.4:
        spec["affinity"]["podAntiAffinity"] = {REQUIRED: [_term(chance, here) for _ in range(chance.choice((1, 1, 2)))]}
    if chance.random() < 0.25:
        spec["containers"][0]["ports"] = [
            {
                "containerPort": 80 + number,
                "hostPort": port,
                "protocol": chance.choice(("TCP", "TCP", "UDP")),
                "hostIP": chance.choice(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")),
            }
            for number, port in enumerate(chance.sample((8080, 8081), chance.choice((1, 1, 2))))
        ]
    elif chance.random() < 0.1:
        spec["hostNetwork"] = True
        spec["containers"][0]["ports"] = [{"containerPort": chance.choice((8080, 8081))}]
    if guest:
        return spec
    if chance.random() < 0.3:
        spec["affinity"]["podAffinity"] = {REQUIRED: [_term(chance, here) for _ in range(chance.choice((1, 1, 2)))]}
    if chance.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": chance.choice((1, 1, 2)),
                "topologyKey": key,
                "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
                **_selecting(chance),
            }
            for key in chance.sample((HOSTNAME, "zone", "rack"), chance.choice((1, 1, 2)))
        ]
    return spec


def _term(chance: random.Random, here: Round) -> Body:
    spaces = chance.choice(([], [], [here.spaces[0]], [here.spaces[1]], list(here.spaces)))
    return {"topologyKey": chance.choice(KEYS), **_selecting(chance), **({"namespaces": spaces} if spaces else {})}


def _selecting(chance: random.Random) -> Body:
    match chance.choice(("label", "label", "label", "In", "NotIn", "Exists", "DoesNotExist", "all", "none")):
        case "label":
            return {"labelSelector": {"matchLabels": {"app": chance.choice(APPS)}}}
        case "In" | "NotIn" as operator:
            found = {"key": "app", "operator": operator, "values": chance.sample(APPS, 2)}
            return {"labelSelector": {"matchExpressions": [found]}}
        case "Exists" | "DoesNotExist" as operator:
            return {"labelSelector": {"matchExpressions": [{"key": "app", "operator": operator}]}}
        case "all":
            return {"labelSelector": {}}
    return {}
