"""What the nodes of a cluster are to placement before any job is there: their order, cards and what they admit.

Made once per cluster, since one cluster serves many snapshots. How much room is left is `room.py`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.node_affinity import NodeWish, matches
from sterna.model.nodes import Cluster, Device, Node, Toleration, cards
from sterna.model.why import Why

Mask = NDArray[np.bool_] | None  # which nodes, by position. None: all of them, so that the common case costs nothing

MEMORY_DIFFERS = -1


class Frame:
    """Nodes by position, which is the order of their ids. Its answers are kept: almost all jobs ask the same."""

    __slots__ = (
        "_admitting",
        "_keepers",
        "_liked",
        "bits",
        "card_bytes",
        "found_sound",
        "gpus",
        "index",
        "latest_room",
        "nodes",
        "uniform_bytes",
    )

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = cluster.nodes
        self.index: dict[NodeId, int] = {node.id: at for at, node in enumerate(cluster.nodes)}
        known = [_cards_of(node.devices, node.allocatable.whole_gpus) for node in cluster.nodes]
        self.bits: list[dict[DeviceId, int]] = [bits for bits, _ in known]  # one per card, lowest id first
        self.card_bytes: list[dict[DeviceId, int]] = [sizes for _, sizes in known]
        self.uniform_bytes: list[int] = [_uniform(sizes) for sizes in self.card_bytes]
        self.gpus: list[int] = [
            min(len(bits), node.allocatable.whole_gpus) for node, bits in zip(self.nodes, self.bits, strict=True)
        ]
        self.latest_room: Any = None  # kept by `room.py` from one layout to the next
        self.found_sound = False  # has everything on these nodes been seen to fit? Only what is not ours can undo that
        self._admitting: dict[tuple[object, ...], Mask] = {}
        self._liked: dict[tuple[NodeWish, ...], list[int]] = {}
        self._keepers: dict[tuple[Toleration, ...], frozenset[NodeId]] = {}

    def admitting(self, spec: JobSpec) -> Mask:
        """Where new workers of this job may go, room aside: taints, cordons, labels and accelerator."""
        key = (spec.demands, spec.accelerator)
        try:
            return self._admitting[key]
        except KeyError:
            mask = np.fromiter((_admits(node, spec) for node in self.nodes), np.bool_, len(self.nodes))
            return self._admitting.setdefault(key, None if mask.all() else mask)

    def admits(self, at: int, spec: JobSpec) -> bool:
        mask = self.admitting(spec)
        return mask is None or bool(mask[at])

    def liked(self, wishes: tuple[NodeWish, ...]) -> list[int]:
        """Nodes that meet any of these wishes, most weight first."""
        try:
            return self._liked[wishes]
        except KeyError:
            weights = {at: _weight(node, wishes) for at, node in enumerate(self.nodes)}
            liked = sorted((at for at in weights if weights[at] > 0), key=lambda at: (-weights[at], at))
            return self._liked.setdefault(wishes, liked)

    def keepers(self, tolerations: tuple[Toleration, ...]) -> frozenset[NodeId]:
        """Nodes on which a worker with these tolerations may stay; a node that is gone is not among them."""
        try:
            return self._keepers[tolerations]
        except KeyError:
            staying = frozenset(node.id for node in self.nodes if node.keeps(tolerations))
            return self._keepers.setdefault(tolerations, staying)

    def keeps_all(self, spec: JobSpec, workers: Iterable[Worker]) -> bool:
        keepers = self.keepers(spec.tolerations)
        for worker in workers:  # noqa: SIM110  (a generator would double the cost of the commonest question)
            if worker[2] not in keepers:
                return False
        return True

    def why_not_kept(self, node: NodeId) -> Why:
        """Why workers must leave this node: it is gone or not ready, or it is being drained."""
        at = self.index.get(node)
        return Why.NODE_LOST if at is None or not self.nodes[at].ready else Why.NODE_DRAINED


def frame_of(cluster: Cluster) -> Frame:
    return _frame(_Same(cluster))


class _Same:
    """A key that stands for one very cluster: hashing a thousand nodes would cost more than it saves."""

    __slots__ = ("cluster",)

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __hash__(self) -> int:
        return id(self.cluster)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.cluster is self.cluster


@lru_cache(maxsize=32)
def _frame(key: _Same) -> Frame:
    return Frame(key.cluster)


def _admits(node: Node, spec: JobSpec) -> bool:
    return (spec.accelerator is None or spec.accelerator == node.accelerator) and node.admits(spec.demands)


def _weight(node: Node, wishes: tuple[NodeWish, ...]) -> int:
    labels = dict(node.labels)
    return sum(weight for weight, term in wishes if matches(term, node.id, labels))


@lru_cache(maxsize=4096)
def _cards_of(devices: tuple[Device, ...], count: int) -> tuple[dict[DeviceId, int], dict[DeviceId, int]]:
    """A bit and the memory of each of a node's cards, "2" before "10"."""
    ordered = sorted(devices or cards(count), key=lambda device: (len(device.id), device.id))
    bits = {device.id: 1 << position for position, device in enumerate(ordered)}
    return bits, {device.id: device.memory_bytes for device in ordered}


def _uniform(sizes: dict[DeviceId, int]) -> int:
    """The memory of each card where all have the same; `MEMORY_DIFFERS` where not."""
    different = set(sizes.values())
    return MEMORY_DIFFERS if len(different) > 1 else next(iter(different), 0)
