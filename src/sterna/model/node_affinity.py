"""Requirements on a node's labels and name, as Kubernetes' node affinity has them. Values, and what they mean.

The meaning is kube-scheduler's own, so that a node that is chosen by these rules is one whose kubelet takes the pod.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

NODE_NAME = "metadata.name"  # stands for the node's own name where a requirement names no label

_DIGITS_MAX = 64  # a label's value has no more
_INTEGER = re.compile(r"[0-9]+")  # no sign: that is no value of a label, and kube-scheduler fails on it


class LabelOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class LabelRequirement(NamedTuple):
    """One requirement on a label, or on the node's name (`NODE_NAME`)."""

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """A label that is not there satisfies `NotIn` and `DoesNotExist`, and nothing else."""
        value = labels.get(self.key)
        match self.operator:
            case LabelOperator.IN:
                return value is not None and value in self.values
            case LabelOperator.NOT_IN:
                return value is None or value not in self.values
            case LabelOperator.EXISTS:
                return value is not None
            case LabelOperator.DOES_NOT_EXIST:
                return value is None
            case LabelOperator.GREATER | LabelOperator.LESS:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1 or not is_integer(value) or not is_integer(self.values[0]):
            return False
        ours, limit = int(value), int(self.values[0])
        return ours > limit if self.operator is LabelOperator.GREATER else ours < limit


def values_expected(operator: LabelOperator, values: tuple[str, ...]) -> str | None:
    """What an operator wants beside it, in words; None where these values are that."""
    match operator:
        case LabelOperator.IN | LabelOperator.NOT_IN:
            return None if values else f"at least one value beside {operator}"
        case LabelOperator.EXISTS | LabelOperator.DOES_NOT_EXIST:
            return f"no values beside {operator}" if values else None
        case LabelOperator.GREATER | LabelOperator.LESS:
            return (
                None
                if len(values) == 1 and is_integer(values[0])
                else f"one whole number without a sign beside {operator}"
            )


NodeTerm = tuple[LabelRequirement, ...]  # all of them hold; an empty term matches no node, as in Kubernetes


class NodeWish(NamedTuple):
    """A term that nodes should match; the larger the weight, the more it counts."""

    weight: int
    term: NodeTerm


def matches(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Does a node with this name and these labels match all of the term?"""
    if not term:
        return False
    known = {**labels, NODE_NAME: name} if any(each.key == NODE_NAME for each in term) else labels
    return all(each.holds(known) for each in term)


def all_terms(left: tuple[NodeTerm, ...], right: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Alternatives that match exactly where one of `left` and one of `right` match. None on a side: no demand there."""
    if not left or not right:
        return left or right
    pairs = ((*one, *other) if one and other else () for one in left for other in right)
    return tuple(dict.fromkeys(pairs))


def is_integer(text: str) -> bool:
    """Is this a whole number that fits 64 bits, as kube-scheduler reads one?"""
    return len(text) <= _DIGITS_MAX and _INTEGER.fullmatch(text) is not None and int(text) < 2**63
