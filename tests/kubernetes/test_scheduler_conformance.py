"""Which nodes admit a pod: the core's answer beside kube-scheduler's own, pod by pod and node by node.

Pods and nodes are drawn at random, another seed each time: labels, selectors, required node affinity with every
operator, several alternatives and `matchFields`, taints of every effect, tolerations. Each pod is put to kube-scheduler
once for each node, with that node's name as one more requirement; so it answers yes or no about that node. Resources
and cordons are not in here: a cordon empties a node with us, whatever the pod tolerates. Left out as well are numbers
with a sign beside `Gt` and `Lt`: the API server takes them, kube-scheduler fails on them, and we refuse the job.
"""

import copy
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import NodeObject
from sterna.engines.kubernetes.world.node_objects import node_of
from sterna.model.node_affinity import NODE_NAME, LabelOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.requests import until
from tests.wire.manifests.builders import with_pod, workload

Body = dict[str, Any]

NODES = 6
PAIRS = int(os.environ.get("STERNA_PODS", "100"))  # a pod and a node each; `make soak` asks for more
AT_ONCE = 600
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEYS = ("zone", "disk", "cpus")
VALUES = ("a", "b", "7", "12", "x1")


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    control_plane.start_scheduler()
    yield control_plane
    control_plane.stop_scheduler()


def test_the_core_admits_a_pod_to_exactly_the_nodes_that_kube_scheduler_does(
    scheduler: ControlPlane, fake_nodes: FakeNodes, namespace: str
):
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    for _ in range(NODES):
        fake_nodes.add(labels=_labels(chance), taints=_taints(chance), pods=10_000)
    nodes = {name: _node(scheduler, name) for name in fake_nodes.names}
    pods = [_pod(chance) for _ in range(-(-PAIRS // NODES))]
    ours = {
        f"pod-{number}-{name}": node.admits(workload(with_pod(**spec)).job_spec(submitted_s=0.0).demands)
        for number, spec in enumerate(pods)
        for name, node in nodes.items()
    }
    theirs: dict[str, bool] = {}
    asked = [(f"pod-{number}-{name}", _on(spec, name)) for number, spec in enumerate(pods) for name in nodes]
    for begin in range(0, len(asked), AT_ONCE):
        theirs |= _answers(scheduler, namespace, asked[begin : begin + AT_ONCE])
    wrong = [f"{name}: we say {ours[name]}" for name in ours if ours[name] != theirs[name]]
    shown = {name: dict(asked)[name] for name in (line.split(":")[0] for line in wrong[:3])}
    assert not wrong, f"seed {seed}: {wrong}\n{json.dumps(shown, indent=1)}\n{nodes}"
    assert 0 < sum(ours.values()) < len(ours)


def _answers(plane: ControlPlane, namespace: str, asked: list[tuple[str, Body]]) -> dict[str, bool]:
    path, api = f"/api/v1/namespaces/{namespace}/pods", plane.api()
    for name, spec in asked:
        api.create(path, {"metadata": {"name": name}, "spec": {**spec, "containers": [{"name": "c", "image": "i"}]}})

    def answered() -> dict[str, bool] | None:
        found = {pod["metadata"]["name"]: _verdict(pod) for pod in api.items(path)}
        known = {name: verdict for name, verdict in found.items() if verdict is not None}
        return known if len(known) >= len(asked) else None

    verdicts: dict[str, bool] | None = until(answered, "kube-scheduler has looked at every pod")
    assert verdicts is not None
    api.delete(path, {"gracePeriodSeconds": 0})
    until(lambda: not api.items(path), "the pods are gone")
    return verdicts


def _verdict(pod: Body) -> bool | None:
    """None: kube-scheduler has not looked at it yet."""
    if pod["spec"].get("nodeName"):
        return True
    conditions = {found["type"]: found for found in pod.get("status", {}).get("conditions", ())}
    return False if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable" else None


def _node(plane: ControlPlane, name: str) -> Any:
    return node_of(msgspec.convert(plane.api().get(f"/api/v1/nodes/{name}"), NodeObject))


# -- what is drawn ----------------------------------------------------------------------------------------------------


def _labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.7}


def _taints(chance: random.Random) -> list[dict[str, str]]:
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    return [
        {"key": key, "value": chance.choice(("", "a")), "effect": chance.choice(effects)}
        for key in ("team", "spot")
        if chance.random() < 0.3
    ]


def _pod(chance: random.Random) -> Body:
    spec: Body = {}
    if chance.random() < 0.3:
        spec["nodeSelector"] = {chance.choice(KEYS): chance.choice(VALUES)}
    if chance.random() < 0.7:
        terms = [_term(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    if chance.random() < 0.6:
        spec["tolerations"] = [_toleration(chance) for _ in range(chance.choice((1, 2)))]
    return spec


def _term(chance: random.Random) -> Body:
    expressions = [_requirement(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    fields = []
    if chance.random() < 0.2 or not expressions:
        operator = chance.choice(("In", "NotIn"))
        fields = [{"key": NODE_NAME, "operator": operator, "values": [f"node-{chance.randrange(NODES)}"]}]
    return {**({"matchExpressions": expressions} if expressions else {}), **({"matchFields": fields} if fields else {})}


def _requirement(chance: random.Random) -> Body:
    operator = chance.choice(list(LabelOperator))
    values: list[str] = []
    if operator in (LabelOperator.IN, LabelOperator.NOT_IN):
        values = chance.sample(VALUES, chance.choice((1, 2)))
    elif operator in (LabelOperator.GREATER, LabelOperator.LESS):
        values = [chance.choice(("0", "7", "8"))]
    return {"key": chance.choice(KEYS), "operator": operator.value, **({"values": values} if values else {})}


def _toleration(chance: random.Random) -> Body:
    if chance.random() < 0.1:
        return {"operator": "Exists"}
    found: Body = {"key": chance.choice(("team", "spot"))}
    if chance.random() < 0.5:
        found["operator"] = "Exists"
    else:
        found |= {"operator": "Equal", "value": chance.choice(("", "a"))}
    if chance.random() < 0.5:
        found["effect"] = chance.choice(("NoSchedule", "NoExecute"))
    return found


def _on(spec: Body, name: str) -> Body:
    """The same pod, if it may go to this node alone."""
    spec = copy.deepcopy(spec)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{}]})["nodeSelectorTerms"]
    for term in terms:
        term.setdefault("matchFields", []).append({"key": NODE_NAME, "operator": "In", "values": [name]})
    return spec
