"""Rules about which pods may be near each other, as Kubernetes has them: values, and what they mean for two pods.

Pod affinity (`together`), pod anti-affinity (`apart`), topology spread (`even`) and host ports. Only what is required
is here; wishes about neighbours are not decided. Whether a node takes one more pod beside all that are there is
`placement/tenants.py`; the meaning is kube-scheduler's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.node_affinity import LabelOperator, LabelRequirement

if TYPE_CHECKING:
    from sterna.model.jobs import Job, JobSpec, Worker
    from sterna.model.nodes import Node

NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the label by which every namespace can be selected

ANY_ADDRESS = "0.0.0.0"  # a host port without an address is on all of them

Labels = tuple[tuple[str, str], ...]


class HostPort(NamedTuple):
    """A port of the node that a pod takes for itself."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def clashes(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return ANY_ADDRESS in (self.address, other.address) or self.address == other.address


class PodSelector(NamedTuple):
    """Which pods are meant. None as requirements: none at all; no requirement: all of the namespaces."""

    requirements: tuple[LabelRequirement, ...] | None = None
    namespaces: tuple[str, ...] = ()  # by name, sorted
    namespace_terms: tuple[LabelRequirement, ...] | None = None  # on a namespace's labels. None: the names alone count
    same: tuple[str, ...] = ()  # labels that are as on the pod itself, as its owner wrote it; `PodTraits.of_pod`
    different: tuple[str, ...] = ()  # labels that are not

    def selects(self, pod: "PodTraits") -> bool:
        return _selects(self, pod.namespace, pod.labels)

    def of_pod(self, namespace: str, labels: Mapping[str, str]) -> "PodSelector":
        """As a pod of this namespace with these labels means it: its own namespace where it names none."""
        names = self.namespaces if self.namespaces or self.namespace_terms is not None else (namespace,)
        requirements = self.requirements
        if requirements is not None:
            same = (LabelRequirement(key, LabelOperator.IN, (labels[key],)) for key in self.same if key in labels)
            other = (
                LabelRequirement(key, LabelOperator.NOT_IN, (labels[key],)) for key in self.different if key in labels
            )
            requirements = (*requirements, *same, *other)
        return PodSelector(requirements, names, self.namespace_terms)


class PodTerm(NamedTuple):
    """Pods that must be in the same domain, or in another one. A domain is what nodes with one value of a label are."""

    key: str
    pods: PodSelector


class EvenRule(NamedTuple):
    """Pods spread over domains: none may have `skew_max` more of the selected pods than the domain with fewest."""

    key: str
    pods: PodSelector
    skew_max: int = 1
    domains_min: int = 1  # with fewer domains than this, the fewest counts as 0
    by_affinity: bool = True  # only nodes that the pod's own node affinity and selector match are counted
    by_taints: bool = False  # only nodes whose taints the pod tolerates are counted


class PodTraits(NamedTuple):
    """What pods of one role are to others."""

    namespace: str = ""
    labels: Labels = ()  # sorted
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    together: tuple[PodTerm, ...] = ()
    even: tuple[EvenRule, ...] = ()

    def of_pod(self, namespace: str, labels: Mapping[str, str]) -> "PodTraits":
        """The same for a pod of this namespace with these labels, whose rules may speak of its own."""
        if not self.has_rules:
            return PodTraits(namespace, tuple(sorted(labels.items())))
        return PodTraits(
            namespace,
            tuple(sorted(labels.items())),
            self.ports,
            tuple(term._replace(pods=term.pods.of_pod(namespace, labels)) for term in self.apart),
            tuple(term._replace(pods=term.pods.of_pod(namespace, labels)) for term in self.together),
            tuple(rule._replace(pods=rule.pods.of_pod(namespace, labels)) for rule in self.even),
        )

    @property
    def has_rules(self) -> bool:
        return bool(self.ports or self.apart or self.together or self.even)

    def meets(self, terms: Iterable[PodTerm]) -> bool:
        """Is it selected by every one of these?"""
        return all(term.pods.selects(self) for term in terms)

    def clashes(self, other: "PodTraits") -> bool:
        return any(mine.clashes(theirs) for mine in self.ports for theirs in other.ports)


NO_TRAITS = PodTraits()


class PlacedPod(NamedTuple):
    traits: PodTraits
    node: NodeId


@dataclass(frozen=True)
class Neighbourhood:
    """What a decision about some jobs must know of all others: every node of the cluster, pods that these jobs have no
    say in, and which workers are there already, since those may stay whatever a rule says.

    There is one only where some pod has a rule, so that clusters without any pay nothing.
    """

    nodes: tuple["Node", ...]
    pods: tuple[PlacedPod, ...]
    present: Mapping[JobId, frozenset["Worker"]]
    selectors: tuple[PodSelector, ...]  # of all rules: a pod that none of them selects and that has no rule is free
    doubtful: tuple[PlacedPod, ...] = ()  # there now, and perhaps no longer: they may keep others out, and help none

    @staticmethod
    def of(nodes: tuple["Node", ...], jobs: Iterable["Job"]) -> "Neighbourhood | None":
        """With the guests of the nodes; None if there is no rule at all."""
        jobs = tuple(jobs)
        guests = tuple(
            PlacedPod(guest.pod, node.id) for node in nodes for guest in node.guests if guest.pod is not None
        )
        ruled = [traits for job in jobs if job.spec.has_rules for _, traits in job.spec.pods]
        if not ruled and not any(pod.traits.apart for pod in guests):
            return None
        terms = [term.pods for pod in guests for term in pod.traits.apart]
        terms += [term.pods for traits in ruled for term in (*traits.apart, *traits.together)]
        terms += [rule.pods for traits in ruled for rule in traits.even]
        present = {job.spec.id: frozenset(job.workers) for job in jobs if job.workers}
        return Neighbourhood(nodes, guests, present, tuple(dict.fromkeys(terms)))

    @cached_property
    def index(self) -> dict[NodeId, int]:
        return {node.id: at for at, node in enumerate(self.nodes)}

    @cached_property
    def answers(self) -> dict[object, object]:
        """What was found out about these nodes by modules that ask about them (`placement/tenants.py`)."""
        return {}

    @cached_property
    def _related(self) -> dict[tuple[object, ...], bool]:
        return {}

    def relates(self, spec: "JobSpec") -> bool:
        """May a rule, its own or another pod's, have a say in where pods of this job are?"""
        if spec.has_rules:
            return True
        known = self._related.get(spec.pods)
        if known is None:
            known = any(term.selects(traits) for term in self.selectors for _, traits in spec.pods)
            self._related[spec.pods] = known
        return known

    def is_present(self, job_id: JobId, worker: "Worker") -> bool:
        return worker in self.present.get(job_id, ())

    def beside(self, pods: Iterable[PlacedPod], doubtful: Iterable[PlacedPod]) -> "Neighbourhood":
        """The same with these pods as well, in which the jobs that are decided about have no say."""
        wider = Neighbourhood(self.nodes, (*self.pods, *pods), self.present, self.selectors, tuple(doubtful))
        wider.__dict__["answers"] = self.answers
        return wider


def requirements_of(labels: Mapping[str, str], more: Iterable[LabelRequirement]) -> tuple[LabelRequirement, ...]:
    """A label selector's `matchLabels` and `matchExpressions` as one."""
    named = (LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in sorted(labels.items()))
    return (*named, *more)


def pods_of(spec: "JobSpec", workers: Iterable["Worker"]) -> tuple[PlacedPod, ...]:
    return tuple(PlacedPod(spec.traits_of(worker.role), worker.node) for worker in workers)


@lru_cache(maxsize=65536)
def _selects(selector: PodSelector, namespace: str, labels: Labels) -> bool:
    requirements, names, terms = selector[:3]
    if requirements is None:
        return False
    if namespace not in names and not (terms is not None and _holds(terms, {NAMESPACE_NAME: namespace})):
        return False
    return _holds(requirements, dict(labels))


def _holds(requirements: Iterable[LabelRequirement], labels: Mapping[str, str]) -> bool:
    return all(each.holds(labels) for each in requirements)
