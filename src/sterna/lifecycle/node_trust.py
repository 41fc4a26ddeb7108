"""How far a node is trusted, by how its readiness went. Pure: what was seen and when goes in, a verdict comes out.

A node that does not answer may be back in a second, and a gang that is restarted for that loses more than the second.
So a node that is not ready is doubted: nothing new comes, what is there stays. After `lost_after_s` it is lost, and at
once where there is nothing to wait for (`NodeSign.leaves`). A node that became not ready `flaps` times within
`flaps_within_s` flaps: nothing new comes before its readiness has been steady for `steady_s`.

Moments are those of the engine's own clock. What another clock tells (`NodeSign.told_s`) counts only when a node is
seen for the first time, and for half of the delay at most: a clock that is wrong by hours cannot make a loss of a
silence that has just begun.
"""

from enum import StrEnum
from typing import NamedTuple

from sterna.model.nodes import Doubt

LOST_AFTER_S = 30.0
STEADY_AFTER_S = 300.0
_FALLS_KEPT = 32  # of one node, the latest


class TrustRules(NamedTuple):
    lost_after_s: float = LOST_AFTER_S  # a node that is not ready for so long is lost
    flaps: int = 3  # a node that became not ready so often ...
    flaps_within_s: float = 600.0  # ... in so much time flaps,
    steady_s: float = STEADY_AFTER_S  # and is given nothing new before it has been as it is for so long


class NodeSign(NamedTuple):
    """What is seen of a node."""

    ready: bool
    leaves: bool = False  # not ready, and it says itself that it goes away, or is known to be off
    told_s: float | None = None  # since when it is not ready, by another clock. None: unknown


class NodePast(NamedTuple):
    """What is remembered of a node."""

    sign: NodeSign
    since_s: float  # when its readiness last changed; when it was first seen, if it never did
    falls: tuple[float, ...] = ()  # when it became not ready, lately


class Trust(StrEnum):
    TRUSTED = "trusted"
    DOUBTED = "doubted"  # nothing new comes, what is there stays
    LOST = "lost"  # with everything on it


class Verdict(NamedTuple):
    trust: Trust
    doubt: Doubt | None = None  # why nothing new comes to a node that is not lost. None: new work may come
    until_s: float | None = None  # when the verdict may be another although nothing is seen. None: never


def seen(past: NodePast | None, sign: NodeSign, now_s: float, rules: TrustRules) -> NodePast:
    """What is remembered from now on; the same object, if the node is as it was."""
    if past is None:
        told_s = 0.0 if sign.ready or sign.told_s is None else now_s - sign.told_s
        return NodePast(sign, now_s - min(max(0.0, told_s), rules.lost_after_s / 2))
    if sign.ready == past.sign.ready:
        return past if sign.leaves == past.sign.leaves else past._replace(sign=sign)
    falls = [fall_s for fall_s in past.falls if fall_s > now_s - rules.flaps_within_s]
    if not sign.ready:
        falls.append(now_s)
    return NodePast(sign, now_s, tuple(falls[-_FALLS_KEPT:]))


def verdict(past: NodePast, now_s: float, rules: TrustRules) -> Verdict:
    flapping = is_flapping(past, now_s, rules)
    if past.sign.ready:
        steady_s = past.since_s + rules.steady_s
        return Verdict(Trust.DOUBTED, Doubt.FLAPPING, steady_s) if flapping else Verdict(Trust.TRUSTED)
    lost_s = past.since_s + rules.lost_after_s
    if past.sign.leaves or now_s >= lost_s:
        return Verdict(Trust.LOST)
    return Verdict(Trust.DOUBTED, Doubt.FLAPPING if flapping else Doubt.NOT_READY, lost_s)


def is_flapping(past: NodePast, now_s: float, rules: TrustRules) -> bool:
    """Did it become not ready so often, and has it not been steady for long enough since?"""
    return len(past.falls) >= rules.flaps and now_s < past.since_s + rules.steady_s


def flapping_in_words(past: NodePast, rules: TrustRules) -> str:
    """For the event that tells of it."""
    return (
        f"it became not ready {len(past.falls)} times within {rules.flaps_within_s / 60:g} minutes: it is given "
        f"nothing new before it has been steady for {rules.steady_s / 60:g} minutes; what runs there stays"
    )
