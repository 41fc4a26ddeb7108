"""What the door asks of the engine behind it: a small port, and the values that cross it.

An engine finds a pod by its name, takes a wish to move one, takes reports, and shows its cluster. What is refused, and
in which words, is decided in front of it (`worker_moves.py`), so that two engines cannot answer differently.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Worker
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.protocol.reports import Batch, Refusal
from sterna.protocol.tokens import TokenOwner


class FoundPod(NamedTuple):
    """One worker of a job, as the asker names it."""

    name: str  # metadata.name on Kubernetes, the worker's name on the local engine
    namespace: str  # empty where there are none
    uid: str  # of this life of it: a worker that was moved or started again has another one
    job_id: JobId
    worker: Worker  # its role, its ordinal (which survives moves) and where it is
    finished: bool = False  # its job has ended
    moves: int = 0  # how often this worker has been moved: counted by role and ordinal, for the job's whole life
    moved_s: float | None = None  # when it was last moved, or last asked to be. None: never
    asked: bool = False  # it was asked for already and the move is not over


class Taken(NamedTuple):
    """What became of a batch."""

    new: int  # reports that were new and about a worker or job that is here
    refused: tuple[Refusal, ...] = ()  # by their places in `Batch.reports`: none of these will ever be taken


class Household(Protocol):
    """Everything but `ask` answers at once, from what is known."""

    @property
    def instance(self) -> str:
        """Another one whenever reports of before are forgotten: monitors then send their windows again."""
        ...

    def now_s(self) -> float: ...

    def absence(self) -> str:
        """Why it can neither move anything nor take reports now (a standby, say). Empty: it can."""
        ...

    def find(self, pod: str, *, namespace: str | None) -> list[FoundPod]:
        """Pods of this name that are a job's. `namespace` None: of all of them, so there may be several."""
        ...

    def snapshot(self) -> Snapshot:
        """The cluster and its jobs as the next decision would see them."""
        ...

    def limits(self) -> Mapping[NodeId, Resources] | None:
        """The sum of all containers' limits on each node, guests included. None: only what jobs say is known."""
        ...

    async def ask(self, pod: FoundPod, to: NodeId) -> bool:
        """Have it moved. False: it was asked for already. Asking twice for one `uid` is asking once, whichever
        caller asks and even if this process is killed between. Raises an error of `sterna.model.errors` if it cannot
        be asked.
        """
        ...

    def take_reports(self, batch: Batch, *, only_here: bool = False) -> Taken:
        """Each report by itself: one that cannot be taken costs the others nothing. The job that it is about, and only
        that one, is told, as it is of what was in the batch and is no report (`batch.refused`). `only_here`: the sender
        may speak for no job but those on `batch.node`."""
        ...

    def tenants(self, node: str) -> Iterable[TokenOwner]:
        """Jobs that have pods on this node."""
        ...

    def follow(self, node: str) -> Mapping[str, str]:
        """Pods on this node (namespace/name, or a worker's name) whose output is to be searched for values, and the
        regular expression to search it with.
        """
        ...
