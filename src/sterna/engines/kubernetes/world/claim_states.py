"""What a claim, its volume and its storage class say about where a pod that mounts it may run. Pure.

As kube-scheduler reads them: the volume's node affinity holds, and so do its labels of zone and region, on nodes that
have any such label. One thing is asked of a claim that kube-scheduler does not ask: it must be bound even if its class
lets it wait for its first consumer.
"""

from collections.abc import Iterable

from sterna.engines.kubernetes.apiserver.volume_objects import (
    ClaimObject,
    Expression,
    StorageClassObject,
    VolumeObject,
)
from sterna.lifecycle.held_back import NOWHERE, ClaimState
from sterna.model.node_affinity import LabelOperator, LabelRequirement, NodeTerm, all_terms

BOUND = "pv.kubernetes.io/bind-completed"
CLASS = "volume.beta.kubernetes.io/storage-class"  # of old, before there was a field for it
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAITS_FOR_POD = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD = {"failure-domain.beta.kubernetes.io/zone": _ZONE, "failure-domain.beta.kubernetes.io/region": _REGION}
_PLACES = (*_OLD, _ZONE, _REGION)
_BETWEEN = "__"  # several zones in the value of one label


def class_name(claim: ClaimObject) -> str:
    return claim.metadata.annotation(CLASS) or claim.spec.storage_class_name or ""


def is_bound(claim: ClaimObject) -> bool:
    return bool(claim.spec.volume_name) and claim.metadata.annotation(BOUND) is not None


def claim_state(
    name: str, claim: ClaimObject | None, volume: VolumeObject | None, storage: StorageClassObject | None
) -> ClaimState:
    """`volume` and `storage` are those that the claim names; None: there is none of this name, or none is named."""
    if claim is None:
        return ClaimState(name, "is not there")
    if claim.terminating:
        return ClaimState(name, "is being deleted")
    if claim.status.phase == "Lost":
        return ClaimState(name, "has lost its volume")
    one_pod = ONE_POD in (claim.spec.access_modes or ())
    if is_bound(claim):
        if volume is None:
            return ClaimState(name, f"is bound to the volume {claim.spec.volume_name}, which is not there")
        return ClaimState(name, terms=volume_terms(volume), one_pod=one_pod)
    if claim.spec.volume_name or storage is None or storage.volume_binding_mode != WAITS_FOR_POD:
        return ClaimState(name, "is not bound to a volume yet")
    if node := claim.metadata.annotation(SELECTED_NODE):
        return ClaimState(name, f"is not bound to a volume yet, which is made for node {node}")
    return ClaimState(name, _NO_CONSUMER)


# kube-scheduler would choose a node and then wait for the volume. We place a whole gang at once, on several nodes, and
# where the volume of one of them ends up decides about the others: it has to be known before.
_NO_CONSUMER = (
    "waits for its first consumer, and Sterna starts no job before its volumes are there: bind it beforehand, by its"
    f" volumeName or by naming a node in its annotation {SELECTED_NODE}"
)


def volume_terms(volume: VolumeObject) -> tuple[NodeTerm, ...]:
    """Nodes where it can be mounted, as alternatives. None: any node."""
    affinity = volume.spec.node_affinity
    terms: tuple[NodeTerm, ...] = ()
    if affinity is not None and affinity.required is not None:
        written = affinity.required.node_selector_terms or ()
        terms = tuple(
            tuple(_requirements((*(term.match_expressions or ()), *(term.match_fields or ())))) for term in written
        )
        terms = terms or NOWHERE
    return all_terms(terms, _by_labels(volume.metadata.labels or {}))


def _requirements(written: Iterable[Expression]) -> Iterable[LabelRequirement]:
    """Of an operator that only a later Kubernetes knows, nothing matches."""
    for each in written:
        known = each.operator in tuple(LabelOperator)
        operator = LabelOperator(each.operator) if known else LabelOperator.IN
        yield LabelRequirement(each.key, operator, tuple(each.values or ()) if known else ())


def _by_labels(labels: dict[str, str]) -> tuple[NodeTerm, ...]:
    """What labels of zone and region demand: a node that has none of them may be anywhere."""
    placed: tuple[NodeTerm, ...] = ()
    for key in _PLACES:
        values = tuple(sorted({part.strip() for part in labels.get(key, "").split(_BETWEEN)}))
        if key in labels and all(values):  # otherwise it cannot be read, and kube-scheduler passes over it
            placed = all_terms(placed, tuple(_with_value(key, values)))
    if not placed:
        return ()
    return (tuple(LabelRequirement(key, LabelOperator.DOES_NOT_EXIST) for key in _PLACES), *placed)


def _with_value(key: str, values: tuple[str, ...]) -> Iterable[NodeTerm]:
    """A node may have the label by its newer name alone."""
    yield (LabelRequirement(key, LabelOperator.IN, values),)
    if key in _OLD:
        absent = LabelRequirement(key, LabelOperator.DOES_NOT_EXIST)
        yield (absent, LabelRequirement(_OLD[key], LabelOperator.IN, values))
