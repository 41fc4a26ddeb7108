"""Which nodes admit a pod that mounts claims: the core's answer beside kube-scheduler's, pod by pod and node by node.

Claims are drawn at random, another seed each time: bound ones whose volumes have node affinity with every operator, or
labels of zone and region, or both; unbound ones; and names of claims that are not there. As in the table of single
pods, each pod is put to kube-scheduler once for each node. The labels have their older names, by which kube-schedulers
of all versions go; one of 1.20 passes over the newer names. A volume's `matchFields` are left out: that one passes over
them as well, and we go by them. Claims that wait for their first consumer are left out: we
ask that they are bound first.
"""

import json
import os
import random
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.volume_objects import ClaimObject, StorageClassObject, VolumeObject
from sterna.engines.kubernetes.world.claim_states import claim_state, class_name
from sterna.lifecycle.held_back import ClaimState, hold_of, placed_under
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.requests import Api, Body
from tests.cluster.volumes import CLASSES, VOLUMES, Volumes
from tests.kubernetes.test_scheduler_conformance import (
    AT_ONCE,
    NODES,
    PAIRS,
    _answers,
    _labels,
    _node,
    _on,
    _term,
    scheduler,
)
from tests.wire.manifests.builders import with_pod, workload

__all__ = ["scheduler"]  # a fixture

ZONE, REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
CLAIMS = int(os.environ.get("STERNA_CLAIMS", "10"))


def test_the_core_admits_a_pod_with_claims_to_exactly_the_nodes_that_kube_scheduler_does(
    scheduler: ControlPlane, fake_nodes: FakeNodes, namespace: str
):
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    for _ in range(NODES):
        fake_nodes.add(labels={**_labels(chance), **_place(chance)}, pods=10_000)
    nodes = {name: _node(scheduler, name) for name in fake_nodes.names}
    with Volumes(scheduler.api(), namespace) as volumes:
        states = _drawn(chance, volumes, scheduler.api())
        pods = [_pod(chance, list(states)) for _ in range(-(-PAIRS // NODES))]
        ours = {
            f"pod-{number}-{name}": _admits(node, spec, states)
            for number, spec in enumerate(pods)
            for name, node in nodes.items()
        }
        asked = [(f"pod-{number}-{name}", _on(spec, name)) for number, spec in enumerate(pods) for name in nodes]
        theirs: dict[str, bool] = {}
        for begin in range(0, len(asked), AT_ONCE):
            theirs |= _answers(scheduler, namespace, asked[begin : begin + AT_ONCE])
    wrong = [f"{name}: we say {ours[name]}" for name in ours if ours[name] != theirs[name]]
    shown = {name: dict(asked)[name] for name in (line.split(":")[0] for line in wrong[:3])}
    assert not wrong, f"seed {seed}: {wrong}\n{json.dumps(shown, indent=1)}\n{nodes}\n{states}"
    assert 0 < sum(ours.values()) < len(ours)


def _admits(node: Any, spec: Body, states: dict[str, ClaimState]) -> bool:
    read = workload(with_pod(**spec))
    hold = hold_of(read, [states[name] for name in read.claims])
    return not hold.holds and bool(node.admits(placed_under(read.job_spec(submitted_s=0.0), hold).demands))


# -- what is drawn ----------------------------------------------------------------------------------------------------


def _drawn(chance: random.Random, volumes: Volumes, api: Api) -> dict[str, ClaimState]:
    """Claims on the API server, and what we make of them."""
    names = [f"claim-{number}" for number in range(CLAIMS)]
    bound = [name for name in names if chance.random() < 0.8]
    for name in bound:
        drawn = [_term(chance) for _ in range(chance.choice((0, 1, 1, 2)))]
        terms = [{"matchExpressions": term["matchExpressions"]} for term in drawn if "matchExpressions" in term]
        volumes.bound(name, terms=terms, labels=_place(chance) if chance.random() < 0.5 else {})
    for name in [name for name in names if name not in bound][:-1]:
        volumes.claim(name, storageClassName=volumes.storage_class(waits_for_pod=False))
    volumes.until_bound(*bound)
    return {name: _state(api, volumes, name) for name in [*names, "not-there"]}


def _state(api: Api, volumes: Volumes, name: str) -> ClaimState:
    found = {body["metadata"]["name"]: body for body in api.items(volumes.path())}.get(name)
    claim = None if found is None else msgspec.convert(found, ClaimObject)
    volume = storage = None
    if claim is not None and claim.spec.volume_name:
        volume = msgspec.convert(api.get(f"{VOLUMES}/{claim.spec.volume_name}"), VolumeObject)
    elif claim is not None and class_name(claim):
        storage = msgspec.convert(api.get(f"{CLASSES}/{class_name(claim)}"), StorageClassObject)
    return claim_state(name, claim, volume, storage)


def _place(chance: random.Random) -> dict[str, str]:
    drawn = {ZONE: chance.choice(("a", "b", "a__b")), REGION: chance.choice(("r", "s"))}
    return {key: value for key, value in drawn.items() if chance.random() < 0.6}


def _pod(chance: random.Random, claims: list[str]) -> Body:
    mounted = chance.sample(claims, chance.choice((1, 1, 2)))
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in mounted]}
