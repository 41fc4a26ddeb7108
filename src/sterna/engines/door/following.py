"""Which logs a monitor is told to follow, within bounds: what one job asks for must not cost its neighbours an answer.

Patterns are users' annotations, which may be as long as an object can be, and all of a node's travel in one answer. A
pattern has a length, and the namespaces of a node share its answer equally. What is left out is told to its job alone.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from sterna.protocol.reports import PATTERN_CHARACTERS_MAX

FOLLOW_BYTES_MAX = 256 * 1024  # of one answer; what monitors read has twice as much and more


class Followed(NamedTuple):
    patterns: dict[str, str]  # namespace/name of a pod -> the regular expression for its output
    left_out: dict[str, str]  # namespace/name of a pod -> why its output is not followed


def followed(wishes: Mapping[str, str]) -> Followed:
    """`wishes`: by namespace/name of a pod what its job's owner wants found in its output."""
    patterns: dict[str, str] = {}
    left_out: dict[str, str] = {}
    by_namespace: defaultdict[str, list[str]] = defaultdict(list)
    for pod in sorted(wishes):
        if (fault := length_fault(wishes[pod])) is not None:
            left_out[pod] = fault
        else:
            by_namespace[pod.partition("/")[0]].append(pod)
    share = FOLLOW_BYTES_MAX // max(1, len(by_namespace))
    for pods in by_namespace.values():
        left = share
        for pod in pods:
            left -= len(json.dumps({pod: wishes[pod]}))
            if left >= 0:
                patterns[pod] = wishes[pod]
            else:
                left_out[pod] = f"patterns of this namespace have more than {share} bytes on one node"
    return Followed(patterns, left_out)


def length_fault(pattern: str) -> str | None:
    """None: it is short enough. Whether it is a pattern, and a quick one, shows where it is used."""
    if len(pattern) <= PATTERN_CHARACTERS_MAX:
        return None
    return f"it has {len(pattern)} characters; at most {PATTERN_CHARACTERS_MAX} are used"
