"""What the scheduler's door (`engines/door/`) asks of the local engine."""

from collections.abc import Iterable, Mapping

from sterna.engines.door.following import followed
from sterna.engines.door.household import FoundPod, Taken
from sterna.engines.local.migrations import asked_moves
from sterna.engines.local.process.daemon import Life
from sterna.engines.local.progress.evaluations import LOG_PATTERN
from sterna.engines.local.progress.report_intake import is_on, job_of_pod, seat_name
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.store.rows import ChangeRow, Stage, WorkerRow
from sterna.engines.pacing import Happening
from sterna.lifecycle.changes import has_moved
from sterna.model.ids import NodeId
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.protocol.reports import Batch
from sterna.protocol.tokens import TokenOwner


class LocalHousehold:
    """Implements `Household`."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._book = life.book
        self._reporting = life.reporting

    @property
    def instance(self) -> str:
        return self._reporting.instance

    def now_s(self) -> float:
        return self._book.timeline.now()

    def absence(self) -> str:
        return "" if self._life.is_ready else "the engine is starting or stopping"

    def find(self, pod: str, *, namespace: str | None) -> list[FoundPod]:
        namespaces = {job.workload.namespace for job in self._book.jobs.values()} if namespace is None else {namespace}
        found = []
        for where in sorted(namespaces):
            job = job_of_pod(self._book, f"{where}/{pod}")
            rows = [] if job is None else [p.row for p in job.live if p.row.wanted and pod in _names(job, p.row)]
            if job is not None and rows:
                found.append(self._found(job, max(rows, key=lambda row: row.incarnation), pod))
        return found

    def snapshot(self) -> Snapshot:
        return self._life.engine.snapshot()

    def limits(self) -> Mapping[NodeId, Resources] | None:
        return None  # only workers of jobs run here

    async def ask(self, pod: FoundPod, to: NodeId) -> bool:
        """Committed before it is answered: a repeat after a crash finds it."""
        job = self._book.jobs[pod.job_id]
        if self._asked(job, pod.worker.ordinal):
            return False
        self._life.engine.refresh()
        change = asked_moves.ask(self._book, self._life.roster, job, worker=pod.worker.ordinal, to=to)
        self._book.event("MigrationRequested", change.message, job=job.row.id, data={"change": change.id})
        self._book.commit("migrate")
        self._life.notice(Happening.PRIORITY_CHANGED)
        return True

    def take_reports(self, batch: Batch, *, only_here: bool = False) -> Taken:
        return self._reporting.take(batch, only_here=only_here)

    def tenants(self, node: str) -> Iterable[TokenOwner]:
        for job in self._book.busy.values():
            if is_on(job, node):
                yield TokenOwner(job.workload.namespace, job.workload.name, job.row.uid)

    def follow(self, node: str) -> Mapping[str, str]:
        """Logs that are to be read for evaluations, by worker."""
        wishes = {
            f"{job.workload.namespace}/{process.row.uid}": pattern
            for job in self._book.busy.values()
            if (pattern := dict(job.workload.annotations).get(LOG_PATTERN)) is not None
            for process in job.live
            if process.row.node == node
        }
        return followed(wishes).patterns

    def _found(self, job: LocalJob, row: WorkerRow, pod: str) -> FoundPod:
        moves = [change for change in self._changes(job) if has_moved(change, row.place[:2])]
        moments = [change.finished_s or change.requested_s for change in moves]
        return FoundPod(
            name=pod,
            namespace=job.workload.namespace,
            uid=row.uid,
            job_id=job.row.id,
            worker=row.place,
            finished=job.row.finished,
            moves=len(moves),
            moved_s=max(moments, default=None),
            asked=self._asked(job, row.ordinal),
        )

    def _changes(self, job: LocalJob) -> list[ChangeRow]:
        """Its changes that were not in vain."""
        changes = self._book.store.changes(job.row.id)
        vain = (Stage.FAILED, Stage.REFUSED)
        return [change for change in changes if change.job_uid == job.row.uid and change.stage not in vain]

    def _asked(self, job: LocalJob, ordinal: int) -> bool:
        return any(
            change.asked and change.job_uid == job.row.uid and change.worker in (None, ordinal)
            for change in self._book.changes.values()
        )


def _names(job: LocalJob, row: WorkerRow) -> tuple[str, str]:
    """A process's own name, and its seat's, which stays when it is moved."""
    return row.uid, seat_name(job, row)
