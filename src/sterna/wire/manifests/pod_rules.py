"""Beside which other pods a pod may be, as its template says it: affinity, anti-affinity, spread, host ports.

What is required is obeyed. What is preferred is not used, and `field_uses.py` has the author told. A namespace is
selected by its name alone, since no other label of it is known; a rule that needs another one is refused.
"""

from collections.abc import Iterable, Sequence

from sterna.model.neighbours import (
    ANY_ADDRESS,
    NAMESPACE_NAME,
    EvenRule,
    HostPort,
    PodSelector,
    PodTerm,
    PodTraits,
    requirements_of,
)
from sterna.model.node_affinity import LabelOperator, LabelRequirement, values_expected
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import LabelSelector, PodAffinityTerm, PodAt, Requirement, SpreadConstraint

_OPERATORS = (LabelOperator.IN, LabelOperator.NOT_IN, LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def traits_of(pod: PodAt, findings: Findings) -> PodTraits:
    """As the template has it: `Workload.job_spec` adds the labels that every pod of the job gets."""
    spec, path = pod.template.spec, (*pod.path, "affinity")
    return PodTraits(
        labels=tuple(sorted(pod.template.metadata.labels.items())),
        ports=tuple(sorted(set(_ports(pod, findings)))),
        apart=_terms(spec.affinity.pod_anti_affinity.required, (*path, "podAntiAffinity", _REQUIRED), findings),
        together=_terms(spec.affinity.pod_affinity.required, (*path, "podAffinity", _REQUIRED), findings),
        even=tuple(_spreads(spec.topology_spread_constraints, (*pod.path, "topologySpreadConstraints"), findings)),
    )


def _ports(pod: PodAt, findings: Findings) -> Iterable[HostPort]:
    """On the network of the node every port is one of the node, as the API server has it."""
    spec = pod.template.spec
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            taken = port.host_port or (port.container_port if spec.host_network else 0)
            if port.protocol not in _PROTOCOLS:
                path = (*pod.container_path(index), "ports", number, "protocol")
                findings.wrong(path, port.protocol, f"one of {', '.join(_PROTOCOLS)}")
            elif taken:
                yield HostPort(taken, port.protocol, port.host_ip or ANY_ADDRESS)


def _terms(written: Sequence[PodAffinityTerm], path: Path, findings: Findings) -> tuple[PodTerm, ...]:
    return tuple(_term(term, (*path, number), findings) for number, term in enumerate(written))


def _term(term: PodAffinityTerm, path: Path, findings: Findings) -> PodTerm:
    spaces = _requirements(term.namespace_selector, (*path, "namespaceSelector"), findings)
    for each in spaces or ():
        if each.key != NAMESPACE_NAME:
            findings.wrong(
                (*path, "namespaceSelector"), each.key, f"{NAMESPACE_NAME}, the one label of a namespace that is known"
            )
    selector = PodSelector(
        _requirements(term.label_selector, (*path, "labelSelector"), findings),
        tuple(sorted(set(term.namespaces))),
        spaces,
        tuple(term.match_label_keys),
        tuple(term.mismatch_label_keys),
    )
    return PodTerm(_key(term.topology_key, path, findings), selector)


def _spreads(written: Sequence[SpreadConstraint], path: Path, findings: Findings) -> Iterable[EvenRule]:
    for number, found in enumerate(written):
        at = (*path, number)
        match found.when_unsatisfiable:
            case "DoNotSchedule":
                pass
            case "ScheduleAnyway":
                continue
            case other:
                findings.wrong((*at, "whenUnsatisfiable"), other, "DoNotSchedule or ScheduleAnyway")
        for name, value in (
            ("maxSkew", found.max_skew),
            ("minDomains", 1 if found.min_domains is None else found.min_domains),
        ):
            if value < 1:
                findings.wrong((*at, name), value, "at least 1")
        for name, policy in (
            ("nodeAffinityPolicy", found.node_affinity_policy),
            ("nodeTaintsPolicy", found.node_taints_policy),
        ):
            if policy not in ("Honor", "Ignore"):
                findings.wrong((*at, name), policy, "Honor or Ignore")
        requirements = _requirements(found.label_selector, (*at, "labelSelector"), findings)
        yield EvenRule(
            _key(found.topology_key, at, findings),
            PodSelector(requirements, same=tuple(found.match_label_keys)),
            max(1, found.max_skew),
            max(1, found.min_domains or 1),
            found.node_affinity_policy == "Honor",
            found.node_taints_policy == "Honor",
        )


def _key(key: str, path: Path, findings: Findings) -> str:
    if not key:
        findings.wrong((*path, "topologyKey"), key, "a label of nodes, like kubernetes.io/hostname")
    return key


def _requirements(
    selector: LabelSelector | None, path: Path, findings: Findings
) -> tuple[LabelRequirement, ...] | None:
    if selector is None:
        return None
    more = _expressions(selector.match_expressions, (*path, "matchExpressions"), findings)
    return requirements_of(selector.match_labels, more)


def _expressions(written: Sequence[Requirement], path: Path, findings: Findings) -> Iterable[LabelRequirement]:
    for number, requirement in enumerate(written):
        at = (*path, number)
        operator = next((each for each in _OPERATORS if each == requirement.operator), None)
        if operator is None:
            findings.wrong((*at, "operator"), requirement.operator, f"one of {', '.join(_OPERATORS)}")
            continue
        values = tuple(requirement.values)
        if (expected := values_expected(operator, values)) is not None:
            findings.wrong((*at, "values"), list(values), expected)
        yield LabelRequirement(requirement.key, operator, values)
