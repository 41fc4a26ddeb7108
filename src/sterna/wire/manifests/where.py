"""On which nodes a job may run, as far as the scheduler understands it: labels, tolerations, one node that is liked.

Of affinities, those that name one value of a label are understood. A list of nodes is taken as a wish for the first.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sterna.model.ids import NodeId
from sterna.model.nodes import Toleration
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import Operator, PodAt, Requirement, Term

HOSTNAME = "kubernetes.io/hostname"
ACCELERATORS = ("sterna.dev/accelerator", "vodascheduler/accelerator")  # labels that name a pool of nodes


class Where(NamedTuple):
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preference: NodeId | None = None
    accelerator: str | None = None


def where_of(pod: PodAt, findings: Findings) -> Where:
    spec = pod.template.spec
    selector = dict(spec.node_selector)
    if spec.node_name:
        selector[HOSTNAME] = spec.node_name
    preference = _required(pod, selector, findings) or _preferred(pod)
    pools = [selector.pop(label) for label in ACCELERATORS if label in selector]
    return Where(
        selector=tuple(sorted(selector.items())),
        tolerations=tuple(_tolerations(pod, findings)),
        preference=None if preference is None else NodeId(preference),
        accelerator=pools[0] if pools else None,
    )


def _required(pod: PodAt, selector: dict[str, str], findings: Findings) -> str | None:
    """Puts into `selector` what can be said there; gives back the node to try first where several are named."""
    path: Path = (*pod.path, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = pod.template.spec.affinity.node_affinity.required.node_selector_terms
    if len(terms) > 1:
        findings.warn((*path, "nodeSelectorTerms"), "several alternatives are not understood, and not used")
        return None
    preference = None
    for requirement in _requirements(terms):
        if requirement.operator == "In" and len(requirement.values) == 1:
            selector.setdefault(requirement.key, requirement.values[0])
        elif requirement.operator == "In" and requirement.key == HOSTNAME and requirement.values:
            preference = requirement.values[0]
            findings.warn(path, f"several nodes are named: {preference} is tried first, the others are not known of")
        else:
            findings.warn(path, f"{requirement.key} {requirement.operator} is not understood, and not used")
    return preference


def _preferred(pod: PodAt) -> str | None:
    wishes = pod.template.spec.affinity.node_affinity.preferred
    for wish in sorted(wishes, key=lambda wish: -wish.weight):
        for requirement in _requirements([wish.preference]):
            if requirement.key == HOSTNAME and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return None


def _requirements(terms: Iterable[Term]) -> Iterable[Requirement]:
    for term in terms:
        yield from term.match_expressions
        for requirement in term.match_fields:  # of fields there is one, metadata.name
            yield requirement.model_copy(update={"key": HOSTNAME})


def _tolerations(pod: PodAt, findings: Findings) -> Iterable[Toleration]:
    for index, toleration in enumerate(pod.template.spec.tolerations):
        exists = toleration.operator is Operator.EXISTS
        if not toleration.key and not exists:
            path = (*pod.path, "tolerations", index, "operator")
            findings.wrong(path, toleration.operator.value, "Exists where there is no key")
        yield Toleration(toleration.key, None if exists else toleration.value, toleration.effect)
