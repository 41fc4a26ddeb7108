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
    somewhere = _Somewhere.on(view.nodes[0].id if view.nodes else NodeId(""))
    return Layout({job_id: somewhere[grant[0]] for job_id, grant in target.grants.items() if grant[0]})


class _Somewhere(dict[int, tuple[Worker, ...]]):
    """So many workers on one node, made once: the same few numbers are asked for all the time."""

    def __init__(self, node: NodeId) -> None:
        super().__init__()
        self._node = node

    @staticmethod
    @lru_cache(maxsize=64)
    def on(node: NodeId) -> "_Somewhere":
        return _Somewhere(node)

    def __missing__(self, count: int) -> tuple[Worker, ...]:
        return self.setdefault(count, tuple(Worker(Role.WORKER, index, self._node) for index in range(count)))
