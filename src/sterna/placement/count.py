"""No placement at all: GPUs are merely counted, as most published simulators do.

Every worker is said to be on the first node, whatever that node holds. Only the simulator may use this, to compare
policies without the effects of nodes; engines with real nodes refuse it.
"""

from functools import lru_cache

from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target


def count_only(view: Snapshot, target: Target) -> Layout:
    node = view.nodes[0].id if view.nodes else NodeId("")
    return Layout({job_id: _anywhere(node, grant[0]) for job_id, grant in target.grants.items() if grant[0]})


@lru_cache(maxsize=4096)
def _anywhere(node: NodeId, count: int) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, index, node) for index in range(count))
