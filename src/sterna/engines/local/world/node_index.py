"""The nodes of this engine as they stand: what each offers, whether it may be used, and the guests on it.

A node of this engine is a part of one machine: it is there or it is lost with all that is on it, and never silent. So
of the rule of `lifecycle/node_trust.py` only that matters here that a node which flaps is given nothing new.
"""

from collections.abc import Iterable
from dataclasses import replace

from sterna.engines.local.store.database import Store
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import NodeRow
from sterna.engines.local.world.job_value import takes_room
from sterna.engines.local.world.machine_nodes import OfferedNode
from sterna.lifecycle.node_trust import (
    NodePast,
    NodeSign,
    TrustRules,
    Verdict,
    flapping_in_words,
    is_flapping,
    seen,
    verdict,
)
from sterna.model.errors import NotFound
from sterna.model.ids import NodeId
from sterna.model.jobs import Worker
from sterna.model.nodes import Cluster, Guest, Node
from sterna.model.resources import NOTHING, Resources

_TRUST = TrustRules()


class Roster:
    def __init__(self, offered: Iterable[OfferedNode], known: dict[str, NodeRow]) -> None:
        self.offered = {offer.node.id: offer for offer in offered}
        self._rows = {node_id: known.get(node_id, NodeRow(id=node_id)) for node_id in self.offered}
        self._guests: dict[NodeId, tuple[Guest, ...]] = {}
        self._pasts: dict[NodeId, NodePast] = {}  # of nodes that were lost or came back since the engine started
        self._verdicts: dict[NodeId, Verdict] = {}
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster.of(self._node(node_id) for node_id in self.offered)
        return self._cluster

    @property
    def real_gpus(self) -> bool:
        return any(not offer.virtual and offer.node.devices for offer in self.offered.values())

    def row(self, node: str) -> NodeRow:
        try:
            return self._rows[NodeId(node)]
        except KeyError:
            raise NotFound("node", node, hint="there are: " + ", ".join(sorted(self.offered))) from None

    def set(self, store: Store, row: NodeRow) -> None:
        """Durable before it counts."""
        with store.write(what=f"node {row.id}") as write:
            write.node(row)
        self._rows[row.id] = row
        self._cluster = None

    def set_ready(self, store: Store, row: NodeRow, *, ready: bool, now_s: float) -> str:
        """Lost, or back. Answers what is to be told of it beside that: that it flaps. Empty: nothing."""
        self.set(store, replace(row, ready=ready))
        known = self._pasts.get(row.id, NodePast(NodeSign(ready=row.ready), now_s))
        past = self._pasts[row.id] = seen(known, NodeSign(ready=ready, leaves=not ready), now_s, _TRUST)
        flapped = is_flapping(known, now_s, _TRUST)
        self.pass_time(now_s)
        return flapping_in_words(past, _TRUST) if is_flapping(past, now_s, _TRUST) and not flapped else ""

    def pass_time(self, now_s: float) -> None:
        """Judge anew what was lost or came back."""
        verdicts = {node_id: verdict(past, now_s, _TRUST) for node_id, past in self._pasts.items()}
        if verdicts != self._verdicts:
            self._verdicts = verdicts
            self._cluster = None

    @property
    def next_change_s(self) -> float | None:
        """When `pass_time` may find something else although nothing happens. None: never."""
        return min((found.until_s for found in self._verdicts.values() if found.until_s is not None), default=None)

    def set_guests(self, guests: dict[NodeId, tuple[Guest, ...]]) -> None:
        if guests != self._guests:
            self._guests = guests
            self._cluster = None

    def _node(self, node_id: NodeId) -> Node:
        row = self._rows[node_id]
        node = self.offered[node_id].node
        judged = self._verdicts.get(node_id)
        return replace(
            node,
            cordoned=row.cordoned,
            ready=row.ready,
            doubt=None if judged is None else judged.doubt,
            guests=self._guests.get(node_id, ()),
        )


def guests_of(jobs: Iterable[LocalJob]) -> dict[NodeId, tuple[Guest, ...]]:
    """Processes of jobs that have ended and are not gone yet: they are not scheduled, but they take room."""
    found: dict[NodeId, list[Guest]] = {}
    for job in jobs:
        for process in job.live:
            row = process.row
            if takes_room(row, job.row.incarnation):
                spec = job.spec
                traits = spec.traits_of(row.role) if spec.pods else None
                guest = Guest(row.uid, spec.request_of(row.role), devices=row.devices, pod=traits)
                found.setdefault(row.node, []).append(guest)
    return {node_id: tuple(sorted(guests)) for node_id, guests in found.items()}


def room_taken(book: Book) -> dict[NodeId, Resources]:
    """What is held on every node, by all workers, those that are leaving included."""
    used: dict[NodeId, Resources] = {}
    for job in book.busy.values():
        value = job.value
        workers: tuple[Worker, ...] = () if value is None else value.workers + value.leaving
        if job.row.finished or job.row.deleting:
            workers = tuple(p.row.place for p in job.live if takes_room(p.row, job.row.incarnation))
        for worker in workers:
            used[worker.node] = used.get(worker.node, NOTHING).plus(job.spec.request_of(worker.role))
    return used


def measured_by_node(book: Book) -> dict[NodeId, Resources]:
    """What its workers really use, on every node where all of them have been measured and there are any."""
    used: dict[NodeId, Resources | None] = {}
    for job in book.busy.values():
        for process in job.live:
            if process.row.started_s is not None:
                one, before = book.used.get(process.row.uid), used.get(process.row.node, NOTHING)
                used[process.row.node] = None if one is None or before is None else before.plus(one)
    return {node_id: amount for node_id, amount in used.items() if amount is not None}


def devices_taken(book: Book) -> set[tuple[NodeId, str]]:
    """Which cards some process has now."""
    return {
        (process.row.node, device)
        for job in book.busy.values()
        for process in job.live
        for device in process.row.devices
    }


def workers_by_node(book: Book) -> dict[NodeId, list[str]]:
    """Whose processes are where, as job and worker."""
    found: dict[NodeId, list[str]] = {}
    for job in book.busy.values():
        for process in job.live:
            found.setdefault(process.row.node, []).append(f"{job.row.id}/{process.row.uid}")
    return found
