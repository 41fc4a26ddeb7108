"""Where a SharePod that goes before training is put, and on which node room is made for it if there is none. Pure.

The fullest card that still has the share comes first, then a node with a card that is not in use: best fit, as
KubeShare itself does it. Room is made by the core, which is asked beforehand: on a node where elastic jobs would shrink
for it, and no job would lose everything.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from sterna.engines.kubernetes.kubeshare.sharepods import CARD, Share, SharePod, card_bytes, new_gpu_id
from sterna.model.errors import SternaError
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.model.nodes import Cluster, Guest, GuestKind, Node, NodeDemands
from sterna.model.plan import Decision
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from sterna.placement.shrinking import is_elastic

Cards = Mapping[str, Mapping[str, Share]]  # by node and GPUID: what is left of cards that SharePods share
Decide = Callable[[Snapshot], Decision]


class ShareSeat(NamedTuple):
    node: str
    gpu_id: str = ""  # empty: it needs no part of a card


def seat_for(pod: SharePod, view: Snapshot, cards: Cards) -> ShareSeat | None:
    """Where it fits now, workers that have not quite left included. None: nowhere."""
    room = Room.of(view, leaving=True)
    best: tuple[tuple[int, int, str, str], ShareSeat] | None = None
    for at, node in enumerate(room.frame.nodes):
        needed, gpu_id = _needed(pod, node, cards)
        if not _admits(pod, node) or not _covers(_free(room, at), needed):
            continue
        if pod.share is None:
            left = room.gpus[at] if needed.gpu_milli else room.cpu[at]
        else:
            left = cards[node.id][gpu_id].milli if gpu_id else WHOLE_GPU_MILLI
        seat = ShareSeat(node.id, gpu_id or _opened(pod, node, cards))
        rank = (left, room.cpu[at], *seat)
        if best is None or rank < best[0]:
            best = (rank, seat)
    return None if best is None else best[1]


def promise_for(
    pod: SharePod, view: Snapshot, cards: Cards, decide: Decide, kept: str = ""
) -> tuple[str, Guest] | None:
    """A node that will have room for it once training has shrunk, and what to count there until then. None: there is
    none without stopping whole jobs. `kept`: the node that was found for it before, which is asked about no more.
    """
    candidates = [node for _, node in sorted(_clearable(pod, view, cards))]
    if kept in candidates:
        return kept, promise_at(pod, kept, view, cards)
    stopped: set[JobId] | None = None
    for name in candidates:
        guest = promise_at(pod, name, view, cards)
        if stopped is None:
            stopped = _stopped(view, decide)
        if stopped is not None and _makes_room(with_guest(view, name, guest), name, decide, stopped):
            return name, guest
    return None


def promise_at(pod: SharePod, name: str, view: Snapshot, cards: Cards) -> Guest:
    """What to count on this node while it is not there."""
    needed, _ = _needed(pod, view.cluster.by_id[NodeId(name)], cards)
    return Guest(f"promised {pod.id}", needed, GuestKind.SERVING)


def with_guest(view: Snapshot, name: str, guest: Guest) -> Snapshot:
    return _changed(view, name, lambda guests: (*guests, guest))


def without_guest(view: Snapshot, name: str, guest: Guest) -> Snapshot:
    return _changed(view, name, lambda guests: tuple(other for other in guests if other != guest))


def _changed(view: Snapshot, name: str, change: Callable[[tuple[Guest, ...]], tuple[Guest, ...]]) -> Snapshot:
    nodes = (replace(node, guests=change(node.guests)) if node.id == name else node for node in view.nodes)
    return replace(view, cluster=Cluster.of(nodes))


# -- what it needs on a node ------------------------------------------------------------------------------------------


def _needed(pod: SharePod, node: Node, cards: Cards) -> tuple[Resources, str]:
    """What it takes there beside its share of a card that is open, and that card. Empty: it opens one."""
    if pod.share is None:
        return pod.request, ""
    share = pod.share
    fitting = [
        (left.milli, gpu_id)
        for gpu_id, left in cards.get(node.id, {}).items()
        if left.milli >= share.milli and left.memory_bytes >= share.memory_bytes
    ]
    return (pod.request, min(fitting)[1]) if fitting else (pod.request.plus(CARD), "")


def _opened(pod: SharePod, node: Node, cards: Cards) -> str:
    return "" if pod.share is None else new_gpu_id(pod.meta.uid, cards.get(node.id, ()))


def _admits(pod: SharePod, node: Node) -> bool:
    big_enough = pod.share is None or pod.share.memory_bytes <= card_bytes(node)
    return big_enough and node.admits(NodeDemands(pod.selector, pod.tolerations))


def _free(room: Room, at: int) -> Resources:
    return Resources(room.cpu[at], room.memory[at], room.gpus[at] * WHOLE_GPU_MILLI)


def _covers(have: Resources, needed: Resources) -> bool:
    """What it does not need may be short."""
    return all(left >= take for left, take in zip(have[:3], needed[:3], strict=True) if take)


# -- making room ------------------------------------------------------------------------------------------------------


def _clearable(pod: SharePod, view: Snapshot, cards: Cards) -> Iterator[tuple[tuple[int, int, int], str]]:
    """Nodes on which it would fit if elastic jobs let go of what they can spare there, and how much is missing now."""
    room = Room.of(view)  # as if workers that were told to go were gone
    spare = _spare(view)
    for at, node in enumerate(room.frame.nodes):
        needed, _ = _needed(pod, node, cards)
        free = _free(room, at)
        if _admits(pod, node) and _covers(free.plus(spare.get(node.id, NOTHING)), needed):
            missing = [max(0, take - have) for have, take in zip(free, needed, strict=True)]
            yield (missing[2], missing[0], missing[1]), node.id


def _spare(view: Snapshot) -> dict[NodeId, Resources]:
    """By node what jobs could let go of there without falling below their least size."""
    spare: dict[NodeId, Resources] = {}
    for job in view.holding:
        for node, count in _spare_workers(job).items():
            request = job.spec.request
            if request.shares_gpu:
                request = request._replace(gpu_milli=0)  # a card is free when the last share is
            spare[node] = spare.get(node, NOTHING).plus(request.times(count))
    return spare


def _spare_workers(job: Job) -> dict[NodeId, int]:
    elastic = [worker for worker in job.workers if is_elastic(worker)]
    surplus = len(elastic) - job.spec.workers_min
    if surplus <= 0:
        return {}
    first = min(elastic, key=lambda worker: worker.ordinal)
    counts: dict[NodeId, int] = {}
    for worker in elastic:
        if worker is not first:
            counts[worker.node] = min(surplus, counts.get(worker.node, 0) + 1)
    return counts


def _stopped(view: Snapshot, decide: Decide) -> set[JobId] | None:
    """Jobs that run and would not, if it were decided now. None: nothing can be decided."""
    try:
        decision = decide(view)
    except SternaError:
        return None
    return {job.id for job in view.holding if job.workers and not decision.layout.workers_of(job.id)}


def _makes_room(trial: Snapshot, name: str, decide: Decide, stopped: set[JobId]) -> bool:
    try:
        decision = decide(trial)
    except SternaError:
        return False
    room = Room.empty(frame_of(trial.cluster))
    for job in trial.jobs:
        workers = decision.layout.workers_of(job.id)
        if job.workers and not workers and job.id not in stopped:
            return False
        room.hold(job.spec, workers)
    return not room.is_overfull(room.frame.index[NodeId(name)])
