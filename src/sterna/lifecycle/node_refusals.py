"""Nodes that did not let a job's workers in, and how long they are left alone for it. Pure.

A kubelet that refuses a pod (`OutOfcpu`, `NodeAffinity`, `UnexpectedAdmissionError`, an eviction) knows something that
the scheduler does not. The job is kept from that node for a while, which grows with each refusal in a row, and goes to
other nodes at once. Once its whole gang trains, the past is forgotten.
"""

from collections.abc import Collection
from typing import NamedTuple

from sterna.model.ids import NodeId

FIRST_S = 30.0
MOST_S = 1800.0
KEPT_MAX = 64  # nodes that are remembered of one job, the latest


class Refusal(NamedTuple):
    node: NodeId
    times: int  # in a row
    until_s: float | None  # the job is kept from the node until then. None: it may be tried again


def with_refusals(known: tuple[Refusal, ...], nodes: Collection[NodeId], now_s: float) -> tuple[Refusal, ...]:
    """After these nodes refused a worker each."""
    if not nodes:
        return known
    times = {refusal.node: refusal.times for refusal in known}
    fresh = [_refused(node, times.get(node, 0) + 1, now_s) for node in sorted(set(nodes))]
    return (*(refusal for refusal in known if refusal.node not in nodes), *fresh)[-KEPT_MAX:]


def without_expired(known: tuple[Refusal, ...], now_s: float) -> tuple[Refusal, ...]:
    """Nodes whose time is over may be tried again; how often they refused is still known. The same object: none is."""
    if not any(refusal.until_s is not None and refusal.until_s <= now_s for refusal in known):
        return known
    return tuple(
        refusal._replace(until_s=None) if refusal.until_s is not None and refusal.until_s <= now_s else refusal
        for refusal in known
    )


def in_force(known: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
    return tuple(refusal for refusal in known if refusal.until_s is not None)


def next_expiry_s(known: tuple[Refusal, ...]) -> float | None:
    return min((refusal.until_s for refusal in known if refusal.until_s is not None), default=None)


def _refused(node: NodeId, times: int, now_s: float) -> Refusal:
    return Refusal(node, times, now_s + min(MOST_S, FIRST_S * 2.0 ** min(times - 1, 20)))
