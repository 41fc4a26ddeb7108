"""Nodes and foreign pods of a cluster, as the model's nodes and guests. Pure: one object in, one value out.

What a pod takes is `pod_amounts.py`.
"""

from collections.abc import Iterable

from sterna.engines.kubernetes.apiserver.objects import NodeObject, Pod
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.engines.kubernetes.world.pod_traits import traits_of_pod
from sterna.lifecycle.node_trust import NodeSign
from sterna.model.ids import DeviceId, NodeId
from sterna.model.nodes import Device, Doubt, Effect, Guest, GuestKind, Node, Taint, cards
from sterna.model.quantities import effective_request

DRAIN = "sterna.dev/drain"  # annotation: "true" moves work away, through the disruption protocol
SERVING = "SERVING_POD"  # annotation: "true" is a pod that goes before training
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")  # taints that follow from readiness
OFF = (
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
)  # taints: it is off

_SHUTS_DOWN = "node is shutting down"  # of the condition Ready, as a kubelet words it in a graceful shutdown

_ACCELERATORS = ("sterna.dev/accelerator", "vodascheduler/accelerator", "nvidia.com/gpu.product")
_EFFECTS = {effect.value: effect for effect in Effect}
_CARDS = "kubeshare/gpu_info"  # annotation: uuid:MiB,uuid:MiB,...
_CARD_MIB = "nvidia.com/gpu.memory"  # label: of every card of the node


def node_of(found: NodeObject, guests: Iterable[Guest] = ()) -> Node:
    """`InvalidRequest`: it offers something that is no amount."""
    meta = found.metadata
    allocatable = effective_request(found.status.allocatable or {}, {}, field=f"node {meta.name}: allocatable")
    return Node(
        id=NodeId(meta.name),
        allocatable=allocatable,
        accelerator=accelerator_of(found, gpus=allocatable.whole_gpus),
        labels=tuple(sorted((meta.labels or {}).items())),
        taints=_taints(found),
        ready=found.ready and not found.terminating,
        doubt=Doubt.NOT_READY if found.ready and _has_taint(found, NOT_READY) else None,
        cordoned=meta.annotation(DRAIN) == "true",
        devices=_devices(found, allocatable.whole_gpus),
        guests=tuple(sorted(guests, key=lambda guest: guest.id)),
    )


def sign_of(found: NodeObject) -> NodeSign:
    """What is seen of a node. How far it is trusted for that is every engine's rule (`lifecycle/node_trust.py`)."""
    told = next((each for each in found.status.conditions or () if each.type == "Ready"), None)
    if found.ready and not found.terminating:
        return NodeSign(ready=True)
    says_so = told is not None and _SHUTS_DOWN in told.message
    return NodeSign(
        ready=False,
        leaves=found.terminating or says_so or _has_taint(found, OFF),
        told_s=None if told is None else moment_s(told.last_transition_time),
    )


def accelerator_of(found: NodeObject, *, gpus: int) -> str:
    """The GPU type, which names the pool. Empty: a node without GPUs."""
    for key in _ACCELERATORS:
        if label := found.metadata.label(key):
            return label
    return "gpu" if gpus else ""


def guest_of(pod: Pod) -> Guest:
    """A pod that is not ours. `InvalidRequest`: it asks for something that is no amount."""
    meta = pod.metadata
    kind = GuestKind.SERVING if meta.annotation(SERVING) == "true" else GuestKind.OTHER
    return Guest(f"{meta.namespace}/{meta.name}", request_of_pod(pod), kind, pod=traits_of_pod(pod))


def takes_room(pod: Pod) -> bool:
    """Is it on a node, and not over? One that is being deleted still is."""
    return bool(pod.spec.node_name) and not pod.over


def _taints(found: NodeObject) -> tuple[Taint, ...]:
    taints = [
        Taint(taint.key, taint.value, _EFFECTS[taint.effect])
        for taint in found.spec.taints or ()
        if taint.effect in _EFFECTS and taint.key not in NOT_READY
    ]
    if found.spec.unschedulable and not any(taint.key == UNSCHEDULABLE for taint in taints):
        taints.append(Taint(UNSCHEDULABLE))  # a cordon counts before the cluster has put its taint there
    return tuple(sorted(taints))


def _has_taint(found: NodeObject, keys: tuple[str, ...]) -> bool:
    return any(taint.key in keys for taint in found.spec.taints or ())


def _devices(found: NodeObject, gpus: int) -> tuple[Device, ...]:
    """The cards, where something is known of them beside their number."""
    listed = []
    for part in filter(None, (found.metadata.annotation(_CARDS) or "").split(",")):
        uuid, _, mib = part.partition(":")
        if not uuid or not mib.isdecimal():
            break  # not what it claims to be: the number of cards is all that is known
        listed.append(Device(DeviceId(uuid), int(mib) << 20))
    if listed and len(listed) == gpus and len({device.id for device in listed}) == gpus:
        return tuple(listed)
    each = found.metadata.label(_CARD_MIB) or ""
    return cards(gpus, memory_bytes=int(each) << 20) if gpus and each.isdecimal() else ()
