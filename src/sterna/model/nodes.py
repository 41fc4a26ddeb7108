"""Nodes, their GPUs, and the guests on them: the room a decision may use. Values only; nothing is chosen here."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from sterna.model.errors import InvalidRequest
from sterna.model.ids import DeviceId, NodeId
from sterna.model.neighbours import PodTraits
from sterna.model.node_affinity import NodeTerm, matches
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Currency, Resources


class Device(NamedTuple):
    """One GPU. All of them offer a whole card of share; their memory may differ."""

    id: DeviceId
    memory_bytes: int = 0  # 0: unknown, so memory is not checked on this card


class Effect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"  # a wish: we read it and place all the same
    NO_EXECUTE = "NoExecute"


class Taint(NamedTuple):
    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE


class Toleration(NamedTuple):
    """As in Kubernetes: an empty key tolerates every taint, a missing value any value, a missing effect any effect."""

    key: str = ""
    value: str | None = None
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        return (
            (not self.key or self.key == taint.key)
            and (self.value is None or self.value == taint.value)
            and (self.effect is None or self.effect == taint.effect)
        )


class NodeDemands(NamedTuple):
    """All that must hold of a node before a worker is put there, room aside. Equal demands are met by equal nodes."""

    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[NodeTerm, ...] = ()  # alternatives, of which one must match. Empty: no such demand
    kept_from: frozenset[NodeId] = frozenset()  # nodes that refused its workers lately


class Doubt(StrEnum):
    """Why a node is given nothing new for now, while what is there stays."""

    NOT_READY = "notReady"  # it does not answer, and that is too new to be believed
    FLAPPING = "flapping"  # it came and went so often that it must be steady for a while first


class GuestKind(StrEnum):
    SERVING = "serving"  # goes before training; room is made for it
    OTHER = "other"  # daemons, pods of other users: they only take room


class Guest(NamedTuple):
    """A pod that is not ours but takes room. Serving pods that have no node yet wait in the snapshot."""

    id: str
    request: Resources
    kind: GuestKind = GuestKind.OTHER
    devices: tuple[DeviceId, ...] = ()  # empty although it uses GPUs: Sterna did not pick them and only counts
    pod: PodTraits | None = None  # what it is to pods beside it. None: no rule asks, or nothing is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: NodeId
    allocatable: Resources
    accelerator: str = ""  # the GPU type; names the pool. Empty: a node without GPUs
    labels: tuple[tuple[str, str], ...] = ()  # sorted pairs rather than a dict, so that nodes hash
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    cordoned: bool = False
    doubt: Doubt | None = None  # why nothing new comes for now. None: there is no doubt about it
    devices: tuple[Device, ...] = ()  # empty: `allocatable.gpu_milli` whole cards of unknown memory
    guests: tuple[Guest, ...] = ()

    @property
    def usable(self) -> bool:
        """May what is here stay, so that its room counts? Not if the node is lost or being drained."""
        return self.ready and not self.cordoned

    @property
    def schedulable(self) -> bool:
        """May new work be put here at all?"""
        return self.ready and not self.cordoned and self.doubt is None

    @property
    def free_of_guests(self) -> Resources:
        """What is left for training; never negative, even if guests overbooked the node."""
        if not self.guests and min(self.allocatable) >= 0:
            return self.allocatable
        used = NOTHING
        for guest in self.guests:
            used = used.plus(guest.request)
        return Resources(*(max(0, have - take) for have, take in zip(self.allocatable, used, strict=True)))

    @property
    def undoubted(self) -> "Node":
        """This node, were there no doubt about it."""
        return self if self.doubt is None else replace(self, doubt=None)

    @property
    def freed(self) -> "Node":
        """This node, were it usable and without guests."""
        return replace(self, ready=True, cordoned=False, doubt=None, guests=())

    def admits(self, demands: NodeDemands) -> bool:
        """May a worker with these demands be put here, room aside?"""
        if not self.schedulable or self.id in demands.kept_from:
            return False
        return self.tolerated_by(demands.tolerations) and self.has_labels_for(demands)

    def tolerated_by(self, tolerations: tuple[Toleration, ...]) -> bool:
        """Are all taints that keep new workers out tolerated?"""
        for taint in self.taints:
            if taint.effect is not Effect.PREFER_NO_SCHEDULE and not any(t.tolerates(taint) for t in tolerations):
                return False
        return True

    def has_labels_for(self, demands: NodeDemands) -> bool:
        """Does it match the selector and one of the alternatives?"""
        if not demands.selector and not demands.terms:
            return True
        labels = dict(self.labels)
        if not all(labels.get(key) == value for key, value in demands.selector):
            return False
        return not demands.terms or any(matches(term, self.id, labels) for term in demands.terms)

    def keeps(self, tolerations: Iterable[Toleration]) -> bool:
        """May a worker that is already here stay? A cordon means "leave"; NoSchedule touches new workers only."""
        tolerations = tuple(tolerations)
        return self.usable and all(
            any(t.tolerates(taint) for t in tolerations) for taint in self.taints if taint.effect is Effect.NO_EXECUTE
        )


def cards(count: int, *, memory_bytes: int = 0) -> tuple[Device, ...]:
    """`count` GPUs numbered from 0, for nodes whose cards have no names of their own."""
    return tuple(Device(DeviceId(str(number)), memory_bytes) for number in range(count))


@dataclass(frozen=True)
class Cluster:
    """All nodes, and what follows from them. One value serves many snapshots, so that its sums are made once."""

    nodes: tuple[Node, ...]  # sorted by id

    @staticmethod
    def of(nodes: Iterable[Node]) -> "Cluster":
        ordered = tuple(sorted(nodes, key=lambda node: node.id))
        for left, right in itertools.pairwise(ordered):
            if left.id == right.id:
                raise InvalidRequest(field="nodes[].id", value=left.id, expected="each node id once")
        return Cluster(ordered)

    @cached_property
    def by_id(self) -> dict[NodeId, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def currency(self) -> Currency:
        """GPUs where there are any, CPUs otherwise: the thing that policies share out."""
        return Currency.GPU if self.has_gpus else Currency.CPU

    @cached_property
    def capacity(self) -> int:
        """What the next layout may use, in the currency: a cordoned node offers nothing, its work is on its way out."""
        currency = self.currency
        return sum(node.free_of_guests[currency] for node in self.nodes if node.usable)

    @cached_property
    def room(self) -> Resources:
        """What the next layout may use of everything, added up: no job can hold more, wherever its workers are."""
        room = NOTHING
        for node in self.nodes:
            if node.usable:
                room = room.plus(node.free_of_guests)
        return room

    @cached_property
    def gpus(self) -> int:
        """Whole GPUs installed on usable nodes, guests or not: the divisor of utilisation."""
        return sum(node.allocatable.gpu_milli for node in self.nodes if node.usable) // WHOLE_GPU_MILLI

    @cached_property
    def bare(self) -> "Cluster":
        """The same nodes without what is there only for now: workers of other pools' jobs, a reservation. Verdicts
        that hold for ever are given by these. The planner knows (`temporarily`); otherwise they are these very nodes.
        """
        return self

    @cached_property
    def freed(self) -> "Cluster":
        """The same nodes, all of them usable and without guests: what could be, whatever is there today."""
        return Cluster(tuple(node.freed for node in self.nodes))

    def temporarily(self, nodes: Iterable[Node]) -> "Cluster":
        """The same nodes as they are for now."""
        cluster = Cluster(tuple(nodes))
        cluster.__dict__["bare"] = self.bare
        return cluster

    @cached_property
    def by_accelerator(self) -> dict[str, "Cluster"]:
        """The pools, by name. Kept, so that what is known of a pool's nodes is known in the next cycle as well."""
        if len(self.accelerators) == 1:
            return {self.accelerators[0]: self}
        return {
            name: Cluster(tuple(node for node in self.nodes if node.accelerator == name)) for name in self.accelerators
        }

    @cached_property
    def has_gpus(self) -> bool:
        return any(node.allocatable.gpu_milli for node in self.nodes)

    @cached_property
    def has_rules(self) -> bool:
        """Is there a guest that keeps other pods out of its neighbourhood?"""
        return any(guest.pod is not None and guest.pod.apart for node in self.nodes for guest in node.guests)

    @cached_property
    def has_nodes_without_gpus(self) -> bool:
        return any(not node.allocatable.gpu_milli for node in self.nodes)

    @cached_property
    def answers(self) -> dict[object, object]:
        """What was found out about these nodes by modules that ask about them (`feasibility.py`)."""
        return {}

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        return tuple(sorted({node.accelerator for node in self.nodes}))
