"""SharePods of KubeShare: pods that have a part of a GPU. What one asks for, and what those of a node take. Pure.

A card of a node is shared by all SharePods that are there under one GPUID, and KubeShare holds the whole of it by a pod
of its own, `kubeshare-vgpu-NODE-GPUID`. Workers of our jobs are no SharePods, so such a card is lost to them while any
share of it is taken; what is left of it is for other SharePods. Pods that KubeShare made for SharePods that count are
known here, so that nothing is counted twice and nothing not at all. Where a SharePod is put is `share_seats.py`.
"""

import hashlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Meta, Pod, PodSpec, PodToleration, Shape, SharePodObject
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.model.errors import InvalidRequest
from sterna.model.nodes import Effect, Guest, Node, Toleration
from sterna.model.quantities import gpu_milli, memory_bytes
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Resources

GPU_ID = "kubeshare/GPUID"  # annotation: which card of its node, by a name that was chosen when it was placed
CARD = Resources(gpu_milli=WHOLE_GPU_MILLI)

_SHARE = ("kubeshare/gpu_request", "kubeshare/gpu_limit", "kubeshare/gpu_mem")  # annotations: all of them or none
_PRIORITY = "lsalab.nthu/priority"  # annotation: "high" goes before training, and is ours to place
_HOLDER = "kubeshare-vgpu-"
_HOLDERS_ARE_IN = "kube-system"  # where KubeShare makes them, whatever namespace their SharePods are in
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 5
_ENDLESS_BYTES = 1 << 62  # the memory of a card whose size is not known


class Share(NamedTuple):
    """Of one card: taken, or left."""

    milli: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePod:
    meta: Meta
    request: Resources  # beside the share; whole GPUs where it asks for no share
    share: Share | None  # None: it needs no part of a card
    node: str = ""  # empty: not placed yet
    gpu_id: str = ""
    urgent: bool = False  # goes before training
    over: bool = False
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    problem: str = ""  # why it cannot be placed

    @property
    def id(self) -> str:
        return f"{self.meta.namespace}/{self.meta.name}"

    @property
    def takes_room(self) -> bool:
        return bool(self.node) and not self.over

    @property
    def waits_for_us(self) -> bool:
        return self.urgent and not self.node and not self.over and self.meta.deletion_timestamp is None


class _Spec(PodSpec, frozen=True):
    node_selector: dict[str, str] | None = None
    tolerations: list[PodToleration] | None = None


class _PodStatus(Shape, frozen=True):
    phase: str = ""


class _Status(Shape, frozen=True):
    pod_status: _PodStatus | None = msgspec.field(default=None, name="PodStatus")


def share_pod_of(found: SharePodObject) -> SharePod:
    """Never raises: what makes no sense in the object is its `problem`."""
    meta, problem = found.metadata, ""
    try:
        spec = msgspec.json.decode(found.spec, type=_Spec)
    except msgspec.DecodeError as error:
        spec, problem = _Spec(), f"spec: {error}"
    try:
        request = request_of_pod(Pod(metadata=meta, spec=spec))
    except InvalidRequest as error:
        request, problem = NOTHING, problem or str(error)
    try:
        share = _share(meta)
    except InvalidRequest as error:
        share, problem = Share(WHOLE_GPU_MILLI, 0), problem or str(error)
    return SharePod(
        meta=meta,
        request=request if share is None else request._replace(gpu_milli=0),
        share=share,
        node=spec.node_name,
        gpu_id=meta.annotation(GPU_ID) or "",
        urgent=meta.annotation(_PRIORITY) == "high",
        over=_is_over(found),
        selector=tuple(sorted((spec.node_selector or {}).items())),
        tolerations=tuple(_toleration(each) for each in spec.tolerations or ()),
        problem=problem,
    )


def guests_of(pod: SharePod) -> dict[str, Guest]:
    """What it takes on its node, by keys that stay: its CPU and memory, and the card that it shares with others."""
    guests = {f"{pod.node}/{pod.meta.uid}": Guest(f"sharepod {pod.id}", pod.request)}
    if pod.gpu_id:
        guests[f"{pod.node}/{pod.gpu_id}"] = Guest(f"vgpu {pod.gpu_id}", CARD)
    return guests


def open_cards(node: Node, there: Iterable[SharePod]) -> dict[str, Share]:
    """What is left of the cards that SharePods share on a node."""
    memory = card_bytes(node)
    left: dict[str, Share] = {}
    for pod in there:
        if pod.gpu_id:
            milli, free_bytes = left.get(pod.gpu_id, (WHOLE_GPU_MILLI, memory))
            taken = pod.share or Share(WHOLE_GPU_MILLI, 0)
            left[pod.gpu_id] = Share(milli - taken.milli, free_bytes - taken.memory_bytes)
    return left


def card_bytes(node: Node) -> int:
    """The memory of the smallest card: which one KubeShare will be given is not known."""
    return min((card.memory_bytes for card in node.devices), default=0) or _ENDLESS_BYTES


def is_shadow(pod: Pod, uids: Mapping[str, SharePod], cards: Container[str], *, operator_namespace: str) -> bool:
    """Did KubeShare make this pod for SharePods that are counted themselves?"""
    meta = pod.metadata
    if meta.name.startswith(_HOLDER):  # any user may choose such a name, in a namespace of their own
        before, _, gpu_id = meta.name.rpartition("-")
        is_trusted = meta.namespace in (_HOLDERS_ARE_IN, operator_namespace)
        return is_trusted and before == f"{_HOLDER}{pod.spec.node_name}" and gpu_id in cards
    for owner in meta.owner_references or ():
        if owner.controller and owner.kind == "SharePod":
            found = uids.get(owner.uid)  # a pod's owner reference may name any uid, that of another namespace's too
            return found is not None and (found.meta.namespace, found.meta.name) == (meta.namespace, owner.name)
    return False


def shadow_of(pod: Pod) -> str | None:
    """The SharePod (its uid) or the card (its holder's name) that this pod may have been made for. None: neither."""
    meta = pod.metadata
    if meta.name.startswith(_HOLDER):
        return meta.name
    return next((owner.uid for owner in meta.owner_references or () if owner.kind == "SharePod"), None)


def shadows_of(pod: SharePod) -> list[str]:
    """What `shadow_of` says of pods that were made for this one."""
    return [pod.meta.uid, *([f"{_HOLDER}{pod.node}-{pod.gpu_id}"] if pod.gpu_id else [])]


def new_gpu_id(uid: str, taken: Iterable[str]) -> str:
    """Five letters, the same for the same SharePod however often it is asked for."""
    known = set(taken)
    for attempt in range(len(known) + 1):
        digest = hashlib.sha256(f"{uid}/{attempt}".encode()).digest()
        name = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_ID_LENGTH])
        if name not in known:
            break
    return name


def _share(meta: Meta) -> Share | None:
    written = {key: value for key in _SHARE if (value := meta.annotation(key)) is not None}
    if not written:
        return None
    for key in _SHARE:
        if key not in written:
            raise InvalidRequest(field=key, value=None, expected=f"a value: {', '.join(_SHARE)} go together")
    asked, most = (gpu_milli(written[key], field=key) for key in _SHARE[:2])
    if most > WHOLE_GPU_MILLI:
        raise InvalidRequest(field=_SHARE[1], value=written[_SHARE[1]], expected="at most 1.0, a whole card")
    if asked > most:
        raise InvalidRequest(field=_SHARE[0], value=written[_SHARE[0]], expected=f"at most {_SHARE[1]}")
    return Share(asked, memory_bytes(written[_SHARE[2]], field=_SHARE[2]))


def _is_over(found: SharePodObject) -> bool:
    try:
        status = msgspec.json.decode(found.status, type=_Status | None)
    except msgspec.DecodeError:
        return False
    return status is not None and status.pod_status is not None and status.pod_status.phase in ("Succeeded", "Failed")


def _toleration(written: PodToleration) -> Toleration:
    effects = {effect.value: effect for effect in Effect}
    return Toleration(written.key, None if written.operator == "Exists" else written.value, effects.get(written.effect))
