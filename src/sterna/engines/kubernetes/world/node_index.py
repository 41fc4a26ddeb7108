"""The nodes of the cluster as they stand, with the guests on them: kept up to date piece by piece.

Guests are pods that no job of ours answers for: other people's, and what is left of jobs that have ended. Only nodes
that something happened to are worked out again, so that one event costs the same in a cluster of five hundred nodes.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from sterna.engines.kubernetes.apiserver.objects import NodeObject, Pod
from sterna.engines.kubernetes.apiserver.ownership import job_key_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.reconcile.job_view import NodeFacts
from sterna.engines.kubernetes.world.node_objects import DRAIN, guest_of, node_of, takes_room
from sterna.engines.pacing import Happening
from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.nodes import Cluster, Guest, GuestKind, Node
from sterna.model.resources import NOTHING

log = logging.getLogger(__name__)


class Roster:
    def __init__(self, cache: Cache, is_counted: Callable[[Pod], bool]) -> None:
        """`is_counted`: does the snapshot show this pod as part of a job, so that it is no guest?"""
        self.facts: dict[str, NodeFacts] = {}
        self.on_happening: Callable[[Happening], None] = lambda _: None
        self.on_facts: Callable[[str], None] = lambda _: None  # of this node
        self.is_shadow: Callable[[Pod], bool] = lambda _: False  # is it counted by something that it was made for?
        self._is_counted = is_counted
        self._bare: dict[str, Node] = {}  # without guests
        self._guests: dict[str, dict[str, Guest]] = {}  # by node, then by uid
        self._where: dict[str, str] = {}  # uid of a guest -> node
        self._waiting: dict[str, tuple[str, Guest]] = {}  # serving pods without a node, by uid: creation and guest
        self._nodes: dict[str, Node] = {}
        self._dirty: set[str] = set()
        self._cluster: Cluster | None = None
        cache.nodes.listen(self._node_changed)
        cache.pods.listen(self._pod_changed)

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None or self._dirty:
            for name in self._dirty:
                bare = self._bare.get(name)
                if bare is None:
                    self._nodes.pop(name, None)
                else:
                    self._nodes[name] = replace(bare, guests=tuple(sorted(self._guests.get(name, {}).values())))
            self._dirty.clear()
            self._cluster = Cluster.of(self._nodes.values())
        return self._cluster

    @property
    def serving(self) -> tuple[Guest, ...]:
        """Serving pods that have no node yet, the oldest first."""
        return tuple(guest for _, guest in sorted(self._waiting.values()))

    def recount(self, pods: Iterable[Pod]) -> None:
        """Whether these are guests may have changed."""
        for pod in pods:
            self._weigh(pod)

    def put_guest(self, key: str, node: str, guest: Guest) -> None:
        """One that is no pod, or not yet."""
        there = self._guests.setdefault(node, {})
        if there.get(key) != guest:
            there[key] = guest
            self._where[key] = node
            self._dirty.add(node)
            self.on_happening(Happening.NODE_CHANGED)

    def drop_guest(self, key: str) -> None:
        self._leave(key)

    def _node_changed(self, before: NodeObject | None, after: NodeObject | None) -> None:
        name = (after or before).metadata.name  # type: ignore[union-attr]
        known = self._bare.get(name)
        bare = None if after is None else _node(after)
        if bare == known:
            return  # a heartbeat
        happening = Happening.NODE_CHANGED
        if bare is None:
            del self._bare[name]
            self.facts.pop(name, None)
            happening = Happening.NODE_DELETED
        else:
            self._bare[name] = bare
            if known is None:
                happening = Happening.NODE_ADDED
        facts = None if after is None else _facts(after)
        if facts is not None:
            was, self.facts[name] = self.facts.get(name), facts
        else:
            was = None
        self._dirty.add(name)
        if facts is None or facts != was:
            self.on_facts(name)
        self.on_happening(happening)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            assert before is not None
            self._leave(before.metadata.uid)
        elif before is None or _weight(before) != _weight(after):
            self._weigh(after)

    def _weigh(self, pod: Pod) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        if self._is_counted(pod) or pod.over or self.is_shadow(pod):
            self._leave(uid)
            return
        guest = _guest(pod)
        if not takes_room(pod):
            self._leave(uid)
            if guest.kind is GuestKind.SERVING and not pod.terminating:
                self._waiting[uid] = (pod.metadata.creation_timestamp or "", guest)
                self.on_happening(Happening.SERVING_ARRIVED)
            return
        self._waiting.pop(uid, None)
        self.put_guest(uid, node, guest)

    def _leave(self, uid: str) -> None:
        if self._waiting.pop(uid, None) is not None:
            self.on_happening(Happening.SERVING_LEFT)
        node = self._where.pop(uid, None)
        if node is None:
            return
        there = self._guests[node]
        del there[uid]
        if not there:
            del self._guests[node]
        self._dirty.add(node)
        self.on_happening(Happening.NODE_CHANGED)


def _weight(pod: Pod) -> tuple[object, ...]:
    """What decides whether, and how much, it counts as a guest."""
    return (pod.spec, pod.over, job_key_of(pod.metadata))


def _node(found: NodeObject) -> Node:
    try:
        return node_of(found)
    except InvalidRequest as error:
        log.error("a node offers what is no amount, and is not used", extra={"why": str(error)})
        return Node(id=NodeId(found.metadata.name), allocatable=NOTHING, ready=False)


def _guest(pod: Pod) -> Guest:
    try:
        return guest_of(pod)
    except InvalidRequest as error:
        log.error("a pod asks for what is no amount, and counts as nothing", extra={"why": str(error)})
        return Guest(f"{pod.metadata.namespace}/{pod.metadata.name}", NOTHING)


def _facts(found: NodeObject) -> NodeFacts:
    drained = found.metadata.annotation(DRAIN) == "true"
    ready = found.ready and not found.terminating
    return NodeFacts(ready=ready, unschedulable=found.spec.unschedulable or drained, drained=drained)
