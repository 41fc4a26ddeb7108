"""Which workers a job lets go of when it is to have fewer. Where new ones go is `packing.py`."""

from collections.abc import Set

from sterna.model.ids import NodeId
from sterna.model.jobs import JobSpec, Role, Worker

ANCHORS = frozenset({Role.PS, Role.CHIEF, Role.MASTER, Role.LAUNCHER})  # workers do best next to these


def shrunk(
    spec: JobSpec, workers: tuple[Worker, ...], size: int, *, crowded: Set[NodeId] = frozenset()
) -> tuple[Worker, ...]:
    """`workers` with at most `size` elastic ones.

    Nodes are left one after another: first those that are `crowded`, then those without a parameter server or chief,
    those with fewest of the job's workers before others; on each the highest ordinal goes first. Fixed roles and the
    lowest ordinal never go: chief duties fall to worker 0 where no other role has them.
    """
    if len(workers) <= size:
        return workers
    elastic = [worker for worker in workers if is_elastic(worker)]
    surplus = len(elastic) - size
    if surplus <= 0:
        return workers
    first = min(elastic, key=_ordinal)
    anchors = {worker.node for worker in workers if worker.role in ANCHORS}
    there: dict[NodeId, list[Worker]] = {}
    for worker in elastic:
        there.setdefault(worker.node, []).append(worker)

    def leaving_order(node: NodeId) -> tuple[bool, bool, int, bool, int, NodeId]:
        here = there[node]
        highest = max(here, key=_ordinal).ordinal
        return (node not in crowded, node in anchors, len(here), first in here, -highest, node)

    order = [
        worker
        for node in sorted(there, key=leaving_order)
        for worker in sorted(there[node], key=_ordinal, reverse=True)
        if worker is not first
    ]
    gone = set(order[:surplus])
    return tuple(worker for worker in workers if worker not in gone)


def is_elastic(worker: Worker) -> bool:
    return worker.role is Role.WORKER


def belongs(spec: JobSpec, worker: Worker) -> bool:
    """Does the job still ask for such a worker? Its owner may have edited the fixed roles."""
    return is_elastic(worker) or any(
        worker.role is fixed.role and worker.ordinal < fixed.replicas for fixed in spec.fixed
    )


def _ordinal(worker: Worker) -> int:
    return worker.ordinal
