"""On which nodes a job may run: labels, node affinity, tolerations, one node that is tried first.

Every required rule is obeyed. Preferred node affinity is a wish; a preferred host name is the node that is tried first.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sterna.model.ids import NodeId
from sterna.model.node_affinity import (
    NODE_NAME,
    LabelOperator,
    LabelRequirement,
    NodeTerm,
    NodeWish,
    all_terms,
    values_expected,
)
from sterna.model.nodes import Toleration
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import Operator, PodAt, Requirement, Term

HOSTNAME = "kubernetes.io/hostname"
ACCELERATORS = ("sterna.dev/accelerator", "vodascheduler/accelerator")  # labels that name a pool of nodes

_TERMS_MAX = 100  # alternatives in all: more is no description of a node


class Where(NamedTuple):
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    terms: tuple[NodeTerm, ...] = ()
    wishes: tuple[NodeWish, ...] = ()
    preference: NodeId | None = None
    accelerator: str | None = None


def where_of(pods: Sequence[PodAt], findings: Findings) -> Where:
    """Nodes are chosen for the whole job, so what one of its roles demands holds for all of them.

    Tolerations, wishes and the node to try first are those of the last one, the workers.
    """
    selector: dict[str, str] = {}
    terms: tuple[NodeTerm, ...] = ()
    for pod in pods:
        for own in (*_named_node(pod), *_selected(pod, selector), _required(pod, selector, findings)):
            terms = all_terms(terms, own)
        if len(terms) > _TERMS_MAX:
            path = (*pod.path, "affinity", "nodeAffinity")
            findings.wrong(path, len(terms), f"at most {_TERMS_MAX} alternatives over all roles")
            terms = terms[:_TERMS_MAX]
    pools = [selector.pop(label) for label in ACCELERATORS if label in selector]
    workers = pods[-1]
    preference = _preferred_host(workers)
    return Where(
        selector=tuple(sorted(selector.items())),
        tolerations=tuple(_tolerations(workers, findings)),
        terms=terms,
        wishes=tuple(_wishes(workers, findings)),
        preference=None if preference is None else NodeId(preference),
        accelerator=pools[0] if pools else None,
    )


def _named_node(pod: PodAt) -> Iterable[tuple[NodeTerm, ...]]:
    if name := pod.template.spec.node_name:
        yield ((LabelRequirement(NODE_NAME, LabelOperator.IN, (name,)),),)


def _selected(pod: PodAt, selector: dict[str, str]) -> Iterable[tuple[NodeTerm, ...]]:
    """Puts the pod's node selector into `selector`; what another role demands otherwise becomes a term beside it."""
    for key, value in pod.template.spec.node_selector.items():
        if selector.setdefault(key, value) != value:
            yield ((LabelRequirement(key, LabelOperator.IN, (value,)),),)


def _required(pod: PodAt, selector: dict[str, str], findings: Findings) -> tuple[NodeTerm, ...]:
    """The alternatives of required node affinity. What names one value of a label goes into `selector` instead."""
    path = (
        *pod.path,
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    written = pod.template.spec.affinity.node_affinity.required.node_selector_terms
    terms = tuple(_term(term, (*path, number), findings) for number, term in enumerate(written))
    if len(terms) != 1:
        return terms
    left = tuple(each for each in terms[0] if not _is_selector(each, selector))
    return (left,) if left or not terms[0] else ()


def _is_selector(requirement: LabelRequirement, selector: dict[str, str]) -> bool:
    """Is this as good as a node selector? Then `selector` holds it afterwards."""
    if requirement.operator is not LabelOperator.IN or len(requirement.values) != 1 or requirement.key == NODE_NAME:
        return False
    return selector.setdefault(requirement.key, requirement.values[0]) == requirement.values[0]


def _term(term: Term, path: Path, findings: Findings) -> NodeTerm:
    labels = _requirements(term.match_expressions, (*path, "matchExpressions"), findings)
    fields = _requirements(term.match_fields, (*path, "matchFields"), findings, fields=True)
    return (*labels, *fields)


def _requirements(
    written: Sequence[Requirement], path: Path, findings: Findings, *, fields: bool = False
) -> Iterable[LabelRequirement]:
    for number, requirement in enumerate(written):
        at = (*path, number)
        if fields and requirement.key != NODE_NAME:
            findings.wrong((*at, "key"), requirement.key, f"{NODE_NAME}, the one field of a node that can be matched")
            continue
        try:
            operator = LabelOperator(requirement.operator)
        except ValueError:
            findings.wrong((*at, "operator"), requirement.operator, f"one of {', '.join(LabelOperator)}")
            continue
        values = tuple(requirement.values)
        if (expected := values_expected(operator, values)) is not None:
            findings.wrong((*at, "values"), list(values), expected)
        yield LabelRequirement(requirement.key, operator, values)


def _wishes(pod: PodAt, findings: Findings) -> Iterable[NodeWish]:
    path = (*pod.path, "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for number, wish in enumerate(pod.template.spec.affinity.node_affinity.preferred):
        if term := _term(wish.preference, (*path, number, "preference"), findings):
            yield NodeWish(wish.weight, term)


def _preferred_host(pod: PodAt) -> str | None:
    wishes = pod.template.spec.affinity.node_affinity.preferred
    for wish in sorted(wishes, key=lambda wish: -wish.weight):
        for requirement in (*wish.preference.match_expressions, *wish.preference.match_fields):
            if requirement.key in (HOSTNAME, NODE_NAME) and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return None


def _tolerations(pod: PodAt, findings: Findings) -> Iterable[Toleration]:
    for index, toleration in enumerate(pod.template.spec.tolerations):
        exists = toleration.operator is Operator.EXISTS
        if not toleration.key and not exists:
            path = (*pod.path, "tolerations", index, "operator")
            findings.wrong(path, toleration.operator.value, "Exists where there is no key")
        yield Toleration(toleration.key, None if exists else toleration.value, toleration.effect)
