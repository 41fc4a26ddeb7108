"""Which pods are on which nodes while a layout is made, and which nodes take one more pod beside them.

`Tenants` counts pods; a `Gate` answers for pods of one kind, and is kept up to date while pods of its job are put down.
Room is not looked at (`room.py`), nor labels and taints of nodes (`frame.py`). The rules are kube-scheduler's:

- Anti-affinity closes the domains of pods that it selects, and works both ways: a pod that is there and selects the
  newcomer keeps it out.
- Affinity opens only domains in which there is a pod that all terms select. Where there is none anywhere, a pod that
  they all select itself may go to any node that has the labels.
- A spread counts selected pods on nodes that have the labels of all spreads of the pod.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sterna.model.ids import NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.neighbours import EvenRule, Neighbourhood, PlacedPod, PodTerm, PodTraits, pods_of
from sterna.model.nodes import Node

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Tenants:
    """Pods by kind and node. Those on a node that is gone are nowhere."""

    def __init__(self, around: Neighbourhood) -> None:
        self.around = around
        self.domains = _domains_of(around)
        self.kinds: dict[PodTraits, Counter[int]] = {}  # how many of each kind are on each node
        self.put(around.pods)

    def copy(self) -> "Tenants":
        twin = object.__new__(Tenants)
        twin.around, twin.domains = self.around, self.domains
        twin.kinds = {traits: counts.copy() for traits, counts in self.kinds.items()}
        return twin

    def put(self, pods: Iterable[PlacedPod], *, by: int = 1) -> None:
        index = self.around.index
        for traits, node in pods:
            if (at := index.get(node)) is not None:
                self.kinds.setdefault(traits, Counter())[at] += by

    def hold(self, spec: JobSpec, workers: Iterable[Worker]) -> None:
        self.put(pods_of(spec, workers))

    def release(self, spec: JobSpec, workers: Iterable[Worker]) -> None:
        self.put(pods_of(spec, workers), by=-1)

    def gate(self, spec: JobSpec, traits: PodTraits) -> "Gate":
        gate = Gate(self, spec, traits)
        for other, counts in self.kinds.items():
            if gate.is_concerned(other):
                for at, count in counts.items():
                    gate.note(other, at, count)
        for other, node in self.around.doubtful:
            if (at_now := self.around.index.get(node)) is not None:
                gate.note(other, at_now, 1, certain=False)
        return gate

    def admits(self, spec: JobSpec, worker: Worker) -> bool:
        """May this worker be put on its node, were it not there already?"""
        at = self.around.index.get(worker.node)
        return at is not None and bool(self.gate(spec, spec.traits_of(worker.role)).open()[at])


class Domains:
    """For each label the number of the domain that each node is in; -1 for nodes without the label."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._labels = [dict(node.labels) for node in nodes]
        self._of: dict[str, tuple[Ints, int]] = {}

    def of(self, key: str) -> tuple[Ints, int]:
        if key not in self._of:
            numbers: dict[str, int] = {}
            found = [numbers.setdefault(labels[key], len(numbers)) if key in labels else -1 for labels in self._labels]
            self._of[key] = np.array(found, np.int64), len(numbers)
        return self._of[key]


class Gate:
    """Where one more pod of this kind may go. Counts have one place more than there are domains: -1 means that one,
    and nothing is counted there."""

    def __init__(self, tenants: Tenants, spec: JobSpec, traits: PodTraits) -> None:
        self.traits = traits
        self._domains = tenants.domains
        nodes = tenants.around.nodes
        self._everywhere = np.ones(len(nodes), np.bool_)
        self._clashes = np.zeros(len(nodes), np.int64)
        self._closing: dict[str, Ints] = {}  # by label: pods that close a domain
        self._beside = [self._empty(term.key) for term in traits.together]
        self._companions = 0  # what is counted in these in all
        self._first = bool(traits.together) and traits.meets(traits.together)  # may it be the first of its kind?
        labelled = self._everywhere.copy()
        for rule in traits.even:
            labelled &= self._domains.of(rule.key)[0] >= 0
        self._spreads = [_Spread(rule, spec, traits, nodes, self._domains, labelled) for rule in traits.even]
        self._effects: dict[PodTraits, _Effect] = {}

    def note(self, other: PodTraits, at: int, count: int, *, certain: bool = True) -> None:
        """So many pods of this kind are there more. Those that may not stay keep others out and help none."""
        effect = self._effect(other)
        if effect.clashes:
            self._clashes[at] += count
        for key in effect.closes:
            domain = self._domains.of(key)[0][at]
            if domain >= 0:
                closing = self._closing.get(key)
                if closing is None:
                    closing = self._closing[key] = self._empty(key)
                closing[domain] += count
        if effect.companion:
            for term, counts in zip(self.traits.together, self._beside, strict=True):
                domain = self._domains.of(term.key)[0][at]
                if domain >= 0:
                    counts[domain] += count if certain else 0
                    self._companions += count
        for spread, counted in zip(self._spreads, effect.counted, strict=True):
            if counted:
                spread.note(at, count, certain=certain)

    def is_concerned(self, other: PodTraits) -> bool:
        """Does it matter where pods of this other kind are?"""
        effect = self._effect(other)
        return effect.clashes or effect.companion or bool(effect.closes) or True in effect.counted

    def _effect(self, other: PodTraits) -> "_Effect":
        effect = self._effects.get(other)
        if effect is None:
            effect = self._effects[other] = _Effect(self.traits, other)
        return effect

    def open(self) -> Bools:
        """By position of the node."""
        found = self._everywhere.copy()
        if self.traits.ports:
            found &= self._clashes <= 0
        for key, counts in self._closing.items():
            found &= counts[self._domains.of(key)[0]] <= 0
        if self._beside:
            found &= self._with_companions()
        for spread in self._spreads:
            found &= spread.open()
        return found

    def crowd(self) -> Ints:
        """How many selected pods the domain of each node has, over all spreads: the fewer, the sooner."""
        total = np.zeros(len(self._everywhere), np.int64)
        for spread in self._spreads:
            total += spread.here()
        return total

    def _with_companions(self) -> Bools:
        labelled, there = self._everywhere.copy(), self._everywhere.copy()
        for term, counts in zip(self.traits.together, self._beside, strict=True):
            domains = self._domains.of(term.key)[0]
            labelled &= domains >= 0
            there &= counts[domains] > 0
        return labelled if self._first and not self._companions else labelled & there

    def _empty(self, key: str) -> Ints:
        return np.zeros(self._domains.of(key)[1] + 1, np.int64)


class _Effect:
    """What a pod of one kind means to a newcomer of another."""

    def __init__(self, mine: PodTraits, other: PodTraits) -> None:
        self.clashes = bool(mine.ports) and mine.clashes(other)
        self.closes = {*_selecting(mine.apart, other), *_selecting(other.apart, mine)}
        self.companion = bool(mine.together) and other.meets(mine.together)
        self.counted = [rule.pods.selects(other) for rule in mine.even]


class _Spread:
    """The pods that one rule counts, by domain."""

    def __init__(
        self,
        rule: EvenRule,
        spec: JobSpec,
        traits: PodTraits,
        nodes: tuple[Node, ...],
        domains: Domains,
        labelled: Bools,
    ) -> None:
        self._rule = rule
        self._own = int(rule.pods.selects(traits))
        self._domain, count = domains.of(rule.key)
        eligible = np.fromiter((_is_counted(node, rule, spec) for node in nodes), np.bool_, len(nodes)) & labelled
        self._eligible = eligible
        self._known = np.zeros(count + 1, np.bool_)
        self._known[self._domain[eligible]] = True
        self._counts = np.zeros(count + 1, np.int64)
        self._certain = np.zeros(count + 1, np.int64)  # of these: pods that stay

    def note(self, at: int, count: int, *, certain: bool) -> None:
        if self._eligible[at]:
            self._counts[self._domain[at]] += count
            self._certain[self._domain[at]] += count if certain else 0

    def here(self) -> Ints:
        found: Ints = self._counts[self._domain]
        return found

    def open(self) -> Bools:
        known = self._certain[self._known]
        fewest = int(known.min()) if len(known) >= max(1, self._rule.domains_min) else 0
        found: Bools = (self._domain >= 0) & (self.here() + self._own - fewest <= self._rule.skew_max)
        return found


def _selecting(terms: Iterable[PodTerm], pod: PodTraits) -> Iterable[str]:
    return (term.key for term in terms if term.pods.selects(pod))


def _is_counted(node: Node, rule: EvenRule, spec: JobSpec) -> bool:
    if rule.by_affinity and not (spec.accelerator in (None, node.accelerator) and node.has_labels_for(spec.demands)):
        return False
    return not rule.by_taints or node.tolerated_by(spec.demands.tolerations)


def _domains_of(around: Neighbourhood) -> Domains:
    known = around.answers.get("domains")
    if not isinstance(known, Domains):
        known = around.answers["domains"] = Domains(around.nodes)
    return known


def node_positions(around: Neighbourhood, nodes: Iterable[NodeId]) -> Ints:
    """Where these nodes are in the neighbourhood, which may be larger than one pool."""
    return np.array([around.index[node] for node in nodes], np.int64)
