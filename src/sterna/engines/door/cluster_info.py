"""`GET /cluster-info`, with container-migration's keys and units. Pure: a snapshot in, plain values out.

CPU is in thousandths of a core and main memory in thousandths of a byte (bytes x 1000), as there; `GpuTotal` and
`GpuFreeCount` count cards, `GpuMemTotal` is the memory of one card in bytes, and `GpuFree` has the cards that several
share: the thousandths and the bytes that are left of each. Nodes that are not schedulable,
or have a NoSchedule taint, are left out.
"""

from collections.abc import Mapping
from typing import Any

from sterna.engines.door.scores import limits_of_jobs
from sterna.model.ids import NodeId
from sterna.model.nodes import Effect, Node
from sterna.model.resources import NOTHING, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.cards import UNCHECKED_BYTES
from sterna.placement.room import Room

_MILLI = 1000


def cluster_info(view: Snapshot, limits: Mapping[NodeId, Resources] | None = None) -> dict[str, dict[str, Any]]:
    """By node. `limits`: sums of what containers may use at most, where the engine knows them of guests as well."""
    room = Room.of(view, leaving=True)
    sums = limits_of_jobs(view) if limits is None else limits
    return {
        node.id: _node_info(node, room, at, sums.get(node.id, NOTHING))
        for at, node in enumerate(room.frame.nodes)
        if _lets_anybody_in(node)
    }


def _node_info(node: Node, room: Room, at: int, limits: Resources) -> dict[str, Any]:
    total = node.allocatable
    shared = room.cards.shared.get(at, {})
    return {
        "CpuTotal": total.cpu_milli,
        "MemTotal": total.memory_bytes * _MILLI,
        "GpuTotal": total.whole_gpus,
        "GpuMemTotal": next(iter(room.frame.card_bytes[at].values()), 0),
        "CpuFree": max(0, room.cpu[at]),
        "MemFree": max(0, room.memory[at]) * _MILLI,
        "CpuMaxRequest": limits.cpu_milli,
        "MemMaxRequest": limits.memory_bytes * _MILLI,
        "GpuFreeCount": max(0, room.gpus[at]),
        "GpuFree": {card: _share(*left) for card, left in sorted(shared.items())},
    }


def _share(milli: int, size: int) -> dict[str, int]:
    known = size if size < UNCHECKED_BYTES // 2 else 0  # 0: the memory of the card is not known
    return {"GPUFreeReq": max(0, milli), "GPUFreeMem": max(0, known)}


def _lets_anybody_in(node: Node) -> bool:
    return node.schedulable and not any(taint.effect is Effect.NO_SCHEDULE for taint in node.taints)
