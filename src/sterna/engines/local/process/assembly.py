"""How a local engine is put together from its configuration, and what it finds of an earlier one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from sterna import __version__
from sterna.engines.local.process.clock import Clock, SystemClock, Timeline, anchored, boot_id
from sterna.engines.local.reconcile.gang import WARM_S
from sterna.engines.local.reconcile.row_changes import Letters, five_letters
from sterna.engines.local.store.database import Store
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import JobRow, Stage, WorkerRow
from sterna.engines.local.world.job_value import spec_of
from sterna.engines.local.world.machine_nodes import NodeChoice, ThisMachine
from sterna.journal.journal import Shapes
from sterna.lifecycle.changes import ChangeKind
from sterna.model.errors import SternaError
from sterna.model.jobs import Disruption, Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, Program, RoleTemplate, Workload

RATE_LIMIT_S = 2.0
POLICY = "elastic-fifo"


class ParsedJob(Protocol):
    """One document of a manifest."""

    @property
    def text(self) -> str: ...

    @property
    def workload(self) -> Workload: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


Parse = Callable[[str], Sequence[ParsedJob]]  # raises InvalidRequest, which tells all that is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    home: Path
    parse: Parse
    nodes: NodeChoice = ThisMachine()
    policy: str | None = None  # None: what was last set, or the default
    settings: Mapping[str, str] = field(default_factory=dict)  # of that policy
    placement: str | None = None  # None: the policy's own
    rate_limit_s: float | None = None  # between cycles. None: what was last set, or the default
    rebalance: Sequence[str] | None = None  # rebalancers by name. None: what was last set, or none
    rebalance_settings: Mapping[str, str] = field(default_factory=dict)  # theirs, and `judge.*` of judging
    starving_after_s: float | None = None
    idle_cpu_share: float | None = None  # of nodes with GPUs, for jobs without. None: the core's default
    monitor_secret: str | None = None  # what tokens of jobs are made from. None: no monitor runs
    shapes: Shapes | None = None  # how decisions are written for replay. None: they are not
    version: str = __version__
    warm_s: float = WARM_S  # how long an old gang trains on while the new one imports
    cgroups: str = "auto"
    clock: Clock = field(default_factory=SystemClock)
    letters: Letters = five_letters
    inherited: Mapping[str, str] | None = None  # environment of workers. None: the engine's
    on_commit: Callable[[str], None] | None = None  # crash points, for tests
    on_effect: Callable[[str], None] | None = None


def open_book(config: LocalConfig, database: Path) -> Book:
    """Everything an earlier engine committed."""
    store = Store(database, on_commit=config.on_commit)
    anchor = anchored(config.clock, boot=boot_id(), previous=store.anchor(), latest_s=store.latest_s())
    with store.write(what="opening") as write:
        write.anchor(anchor)
    book = Book(store, Timeline(config.clock, anchor))
    workers: dict[str, list[WorkerRow]] = {}
    for row in store.workers():
        workers.setdefault(row.job_uid, []).append(row)
    for job_row in store.jobs():
        book.add(_job(config, book, job_row, workers.get(job_row.uid, [])))
    return book


def _job(config: LocalConfig, book: Book, row: JobRow, workers: list[WorkerRow]) -> LocalJob:
    try:
        (parsed,) = config.parse(row.manifest)
        workload = named(parsed.workload, row)
        spec = spec_of(workload, row)
    except (SternaError, ValueError) as error:
        workload = _unreadable(row)
        spec = spec_of(workload, replace(row, bounds=None))
        if not row.finished:
            message = f"this version cannot read its manifest: {error}"
            row = replace(row, phase=Phase.FAILED, reason="InvalidManifest", message=message, assigned=())
            row = replace(row, finished_s=book.timeline.now())
    job = LocalJob(row, workload, spec, {worker.uid: LocalProcess(worker) for worker in workers})
    closed = [change for change in book.store.changes(row.id, limit=64) if change.stage is Stage.SUCCEEDED]
    kinds = (ChangeKind.RESIZE, ChangeKind.MIGRATION, ChangeKind.PREEMPTION)
    job.disruptions = tuple(
        Disruption(change.finished_s or change.requested_s, change.kind, change.downtime_s or 0.0)
        for change in closed
        if change.kind in kinds and change.job_uid == row.uid
    )
    return job


def named(workload: Workload, row: JobRow) -> Workload:
    """A name that was made up at submission is not in the manifest."""
    namespace, _, name = row.id.partition("/")
    return workload if workload.id == row.id else replace(workload, namespace=namespace, name=name)


def _unreadable(row: JobRow) -> Workload:
    namespace, _, name = row.id.partition("/")
    roles = tuple(RoleTemplate(role=role, replicas=1, program=Program(argv=("false",))) for role in Role)
    return Workload(
        namespace=namespace, name=name, api_version="", kind="ElasticJob", roles=roles, contract=Contract.RESTART
    )
