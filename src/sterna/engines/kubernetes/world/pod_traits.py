"""What a pod of the cluster is to pods that come after it: its labels, its host ports, and whom it keeps out. Pure."""

from collections.abc import Iterable

from sterna.engines.kubernetes.apiserver.objects import Expression, LabelSelector, Pod, PodAffinityTerm
from sterna.model.neighbours import (
    ANY_ADDRESS,
    NAMESPACE_NAME,
    HostPort,
    PodSelector,
    PodTerm,
    PodTraits,
    requirements_of,
)
from sterna.model.node_affinity import LabelOperator, LabelRequirement

_OPERATORS = {operator.value: operator for operator in LabelOperator}


def traits_of_pod(pod: Pod) -> PodTraits:
    affinity = pod.spec.affinity
    required = None if affinity is None or affinity.pod_anti_affinity is None else affinity.pod_anti_affinity.required
    written = PodTraits(ports=tuple(sorted(set(_ports(pod)))), apart=tuple(map(_term, required or ())))
    return written.of_pod(pod.metadata.namespace, pod.metadata.labels or {})


def as_far_as_asked(traits: PodTraits, *, rules: bool) -> PodTraits | None:
    """What a snapshot needs of it: everything where a job has `rules`, else only whom it keeps out itself."""
    if rules:
        return traits
    return PodTraits(apart=traits.apart) if traits.apart else None


def _ports(pod: Pod) -> Iterable[HostPort]:
    sidecars = [found for found in pod.spec.init_containers or () if found.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports or ():
            if port.host_port:
                yield HostPort(port.host_port, port.protocol or "TCP", port.host_ip or ANY_ADDRESS)


def _term(term: PodAffinityTerm) -> PodTerm:
    requirements = None if term.label_selector is None else _requirements(term.label_selector)
    spaces = None if term.namespace_selector is None else _requirements(term.namespace_selector)
    if spaces is not None and any(each.key != NAMESPACE_NAME for each in spaces):
        spaces = ()  # other labels of namespaces are not known: it may keep out pods of any
    keys = (tuple(term.match_label_keys or ()), tuple(term.mismatch_label_keys or ()))
    return PodTerm(term.topology_key, PodSelector(requirements, tuple(sorted(term.namespaces or ())), spaces, *keys))


def _requirements(selector: LabelSelector) -> tuple[LabelRequirement, ...]:
    return requirements_of(selector.match_labels or {}, map(_requirement, selector.match_expressions or ()))


def _requirement(found: Expression) -> LabelRequirement:
    """The API server lets in no other operators."""
    return LabelRequirement(found.key, _OPERATORS[found.operator], tuple(found.values or ()))
