"""The nodes of the cluster as they stand, with the guests on them: kept up to date piece by piece.

Guests are pods that no job of ours answers for: other people's, and what is left of jobs that have ended. A pod of a
job that takes more than its job answers for is a guest with the rest. Only nodes that something happened to are worked
out again, so that one event costs the same in a cluster of five hundred nodes.

A node is shown as far as it is trusted (`lifecycle/node_trust.py`): one that has just fallen silent keeps what is
there. What that rule remembers is kept here alone and begins anew with the process; a standby watches as well, so that
a new leader knows it.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sterna.engines.kubernetes.apiserver.objects import NodeObject, Pod
from sterna.engines.kubernetes.apiserver.ownership import job_key_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.reconcile.job_view import NodeFacts
from sterna.engines.kubernetes.world.node_objects import DRAIN, guest_of, node_of, sign_of, takes_room
from sterna.engines.kubernetes.world.pod_amounts import resize_of
from sterna.engines.kubernetes.world.pod_traits import as_far_as_asked
from sterna.engines.pacing import Happening
from sterna.lifecycle.counted_requests import uncounted
from sterna.lifecycle.node_trust import NodePast, Trust, TrustRules, Verdict, is_flapping, seen, verdict
from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.nodes import Cluster, Guest, GuestKind, Node
from sterna.model.resources import NOTHING, Resources

log = logging.getLogger(__name__)


class Roster:
    def __init__(
        self,
        cache: Cache,
        answered_for: Callable[[Pod], Resources | None],
        *,
        now: Callable[[], float],
        trust: TrustRules,
    ) -> None:
        """`answered_for`: what of this pod the snapshot shows as part of a job. None: nothing, it is a guest."""
        self.trust = trust
        self.flapping: dict[str, NodePast] = {}  # nodes that are given nothing new for that, by name
        self.on_doubt: Callable[[], None] = lambda: None  # `next_change_s` or `flapping` may be another
        self.facts: dict[str, NodeFacts] = {}
        self.on_happening: Callable[[Happening], None] = lambda _: None
        self.on_facts: Callable[[str], None] = lambda _: None  # of this node
        self.is_shadow: Callable[[Pod], bool] = lambda _: False  # is it counted by something that it was made for?
        self._answered_for = answered_for
        self._now = now
        self._found: dict[str, NodeObject] = {}
        self._pasts: dict[str, NodePast] = {}
        self._until: dict[str, float] = {}  # nodes that are in doubt, and when that may end
        self._bare: dict[str, Node] = {}  # without guests
        self._guests: dict[str, dict[str, Guest]] = {}  # by node, then by uid
        self._where: dict[str, str] = {}  # uid of a guest -> node
        self._waiting: dict[str, tuple[str, Guest]] = {}  # serving pods without a node, by uid: creation and guest
        self._nodes: dict[str, Node] = {}
        self._dirty: set[str] = set()
        self._cluster: Cluster | None = None
        self._rules = False  # has a job rules about the pods beside its own?
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
                    self._nodes[name] = replace(bare, guests=self._shown(name))
            self._dirty.clear()
            self._cluster = Cluster.of(self._nodes.values())
        return self._cluster

    @property
    def serving(self) -> tuple[Guest, ...]:
        """Serving pods that have no node yet, the oldest first."""
        return tuple(guest for _, guest in sorted(self._waiting.values()))

    def tell_of_rules(self, rules: bool) -> None:
        """Labels and ports of guests are shown only while a job has rules about the pods beside its own."""
        if rules != self._rules:
            self._rules = rules
            self._dirty.update(self._guests)

    def _shown(self, node: str) -> tuple[Guest, ...]:
        guests = self._guests.get(node, {}).values()
        asked = (
            guest if guest.pod is None else guest._replace(pod=as_far_as_asked(guest.pod, rules=self._rules))
            for guest in guests
        )
        return tuple(sorted(asked, key=lambda guest: guest.id))

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
        if after is None:
            assert before is not None
            self._gone(before.metadata.name)
            return
        name = after.metadata.name
        self._found[name] = after
        self._pasts[name] = seen(self._pasts.get(name), sign_of(after), self._now(), self.trust)
        self._judge(name)

    def _gone(self, name: str) -> None:
        known: list[dict[str, Any]] = [self._found, self._pasts, self._until, self._bare, self.facts, self.flapping]
        for each in known:
            each.pop(name, None)
        self._dirty.add(name)
        self.on_facts(name)
        self.on_happening(Happening.NODE_DELETED)
        self.on_doubt()

    def pass_time(self) -> None:
        """Judge anew what is in doubt and whose time is over."""
        now_s = self._now()
        for name in [name for name, until_s in self._until.items() if until_s <= now_s]:
            self._judge(name)

    @property
    def next_change_s(self) -> float | None:
        """When `pass_time` has something to do. None: no node is in doubt."""
        return min(self._until.values(), default=None)

    def _judge(self, name: str) -> None:
        found, past, now_s = self._found[name], self._pasts[name], self._now()
        judged = verdict(past, now_s, self.trust)
        self._note_doubt(name, past, judged, now_s)
        known, bare = self._bare.get(name), _trusted(_node(found), judged)
        was, facts = self.facts.get(name), _facts(found, judged, bare)
        if bare == known and facts == was:
            return  # a heartbeat
        self._bare[name], self.facts[name] = bare, facts
        self._dirty.add(name)
        if facts != was:
            self.on_facts(name)
        self.on_happening(Happening.NODE_ADDED if known is None else Happening.NODE_CHANGED)

    def _note_doubt(self, name: str, past: NodePast, judged: Verdict, now_s: float) -> None:
        before = (self._until.get(name), name in self.flapping)
        if judged.until_s is None:
            self._until.pop(name, None)
        else:
            self._until[name] = judged.until_s
        if is_flapping(past, now_s, self.trust):
            self.flapping[name] = past
        else:
            self.flapping.pop(name, None)
        if before != (self._until.get(name), name in self.flapping):
            self.on_doubt()

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            assert before is not None
            self._leave(before.metadata.uid)
        elif before is None or _weight(before) != _weight(after):
            self._weigh(after)

    def _weigh(self, pod: Pod) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        answered = self._answered_for(pod)
        if pod.over or self.is_shadow(pod):
            self._leave(uid)
            return
        guest = _guest(pod)
        if answered is not None:
            rest = uncounted(guest.request, answered)
            if rest == NOTHING or not takes_room(pod):
                self._leave(uid)
            else:
                self.put_guest(uid, node, Guest(guest.id, rest))
            return
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
    return (pod.spec, pod.metadata.labels, pod.over, job_key_of(pod.metadata), resize_of(pod))


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


def _trusted(node: Node, judged: Verdict) -> Node:
    """The node as the core is to see it."""
    if judged.trust is Trust.LOST:
        return replace(node, ready=False, doubt=None)
    return node if judged.doubt is None else replace(node, ready=True, doubt=judged.doubt)


def _facts(found: NodeObject, judged: Verdict, node: Node) -> NodeFacts:
    drained = found.metadata.annotation(DRAIN) == "true"
    return NodeFacts(
        ready=judged.trust is not Trust.LOST,
        doubted=node.doubt is not None,
        unschedulable=found.spec.unschedulable or drained,
        drained=drained,
    )
