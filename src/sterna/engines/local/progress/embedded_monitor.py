"""The monitor inside the engine: for jobs that tell of themselves by other ways than the mailbox.

    sterna.dev/monitor: "true"         their workers are given the monitor's address and a token, and post to it
    sterna.dev/log-pattern: REGEX      what the first worker prints is looked through
    sterna.dev/epoch-csv: PATH         a training log in Voda's form, relative to where the job runs

It begins with the first job that needs it, and listens where it listened before, since workers outlive the engine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from sterna.engines.local.process.home import Home
from sterna.engines.local.progress.evaluations import EPOCH_CSV, LOG_PATTERN, METRIC, MONITOR
from sterna.engines.local.progress.report_intake import seat_name
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import WorkerRow
from sterna.model.errors import InvalidRequest
from sterna.model.workload import Workload
from sterna.monitor import Monitor, Settings, Watched
from sterna.monitor.matcher import pattern_fault
from sterna.protocol import environment as names
from sterna.protocol.reports import Answer, Batch
from sterna.protocol.tokens import job_token

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
_PORT = "monitorPort"

Deliver = Callable[[Batch], Awaitable[Answer]]


def needs_monitor(workload: Workload) -> bool:
    wishes = dict(workload.annotations)
    return wishes.get(MONITOR, "").lower() == "true" or EPOCH_CSV in wishes or LOG_PATTERN in wishes


def require_watchable(workload: Workload) -> None:
    """`InvalidRequest`: its annotations ask for something that cannot be done."""
    wishes = dict(workload.annotations)
    field = f"job {workload.id}: metadata.annotations."
    if wishes.get(MONITOR, "true").lower() not in ("true", "false"):
        raise InvalidRequest(field=field + MONITOR, value=wishes[MONITOR], expected='"true" or "false"')
    if wishes.get(EPOCH_CSV) == "":
        raise InvalidRequest(field=field + EPOCH_CSV, value="", expected="the path of a file")


async def require_patterns(workloads: Iterable[Workload]) -> None:
    """`InvalidRequest`: what one of them is to be searched with is no pattern, or takes too long. Looked into by
    another process, since a pattern may take seconds to be compiled."""
    for workload in workloads:
        pattern = dict(workload.annotations).get(LOG_PATTERN)
        if pattern is not None and (fault := await pattern_fault(pattern)) is not None:
            field = f"job {workload.id}: metadata.annotations.{LOG_PATTERN}"
            raise InvalidRequest(field=field, value=pattern[:200], expected=f"a pattern ({fault})")


class Watching:
    """`secret` None: no monitor is to run, and no job is watched."""

    def __init__(self, book: Book, home: Home, *, secret: str | None, deliver: Deliver) -> None:
        self._book = book
        self._home = home
        self._secret = secret
        self._deliver = deliver
        self._monitor: Monitor | None = None
        self._port = 0
        self._watched: dict[str, Watched] = {}
        self._starting = asyncio.Lock()

    @property
    def url(self) -> str | None:
        """Where it listens. None: it does not."""
        return f"http://{HOST}:{self._port}" if self._monitor is not None else None

    async def environment_of(self, job: LocalJob, row: WorkerRow) -> dict[str, str]:
        """What a worker that is about to start is told of the monitor; from now on it is watched."""
        if not needs_monitor(job.workload) or not await self._is_there():
            return {}
        self.look()
        workload = job.workload
        wishes = dict(workload.annotations)
        if wishes.get(MONITOR, "").lower() != "true" or self._secret is None or self.url is None:
            return {}
        token = job_token(self._secret, namespace=workload.namespace, job=workload.name, uid=job.row.uid)
        told = {names.MONITOR_URL: self.url, names.MONITOR_TOKEN: token, names.POD: seat_name(job, row)}
        return told | ({names.METRIC: wishes[METRIC]} if METRIC in wishes else {})

    async def resume(self) -> None:
        """After a start of the engine: workers that were watched are watched again."""
        if any(needs_monitor(job.workload) for job in self._book.busy.values()) and await self._is_there():
            self.look()

    def look(self) -> None:
        """Watch what is there now, and nothing else."""
        if self._monitor is None:
            return
        wanted = {watched.pod: watched for job in self._book.busy.values() for watched in self._of(job)}
        for pod, watched in wanted.items():
            if self._watched.get(pod) != watched:
                self._monitor.watch(watched)
        for pod in self._watched.keys() - wanted.keys():
            self._monitor.unwatch(pod)
        self._watched = wanted

    async def stop(self) -> None:
        if self._monitor is not None:
            monitor, self._monitor = self._monitor, None
            await monitor.stop()

    def _of(self, job: LocalJob) -> Iterable[Watched]:
        if not needs_monitor(job.workload) or job.row.finished:
            return
        wishes, namespace = dict(job.workload.annotations), job.workload.namespace
        if EPOCH_CSV in wishes:
            path = Path(job.row.cwd) / wishes[EPOCH_CSV]
            yield Watched(f"{namespace}/{job.workload.name}", job_uid=job.row.uid, epochs=path)
        if wishes.get(MONITOR, "").lower() == "true":
            for seat in {seat_name(job, process.row) for process in job.live}:
                yield Watched(f"{namespace}/{seat}", job_uid=job.row.uid)
        if LOG_PATTERN in wishes:
            for row in _first_of_each_gang(job):
                log_path = self._home.mailbox(job.row.uid, row.uid) / "log"
                pod = f"{namespace}/{row.uid}"
                yield Watched(pod, job_uid=job.row.uid, log=log_path, pattern=wishes[LOG_PATTERN])

    async def _is_there(self) -> bool:
        """The monitor, begun if it must be. Where it cannot listen, jobs train all the same and are not judged."""
        async with self._starting:
            if self._monitor is not None or self._secret is None:
                return self._monitor is not None
            kept = self._book.store.setting(_PORT) or 0
            for port in dict.fromkeys((kept, 0)):
                monitor = self._made(port)
                try:
                    self._port = await monitor.start()
                except OSError as error:
                    log.warning("the monitor cannot listen", extra={"port": port, "why": str(error)})
                    continue
                self._monitor = monitor
                if self._port != kept:
                    with self._book.store.write(what="monitor") as write:
                        write.setting(_PORT, self._port)
                return True
            self._book.event("MonitorDown", "the monitor finds no port to listen on", warning=True)
            return False

    def _made(self, port: int) -> Monitor:
        secret = self._secret or ""
        settings = Settings(node="local", host=HOST, port=port, measure_s=0.0)  # the engine measures its own
        return Monitor(settings, secrets=lambda: (secret,), deliver=self._deliver)


def _first_of_each_gang(job: LocalJob) -> list[WorkerRow]:
    """The one that speaks for the others: of the gang that trains, and of one that warms up beside it."""
    rows = [process.row for process in job.live]
    gangs = {row.incarnation for row in rows}
    return [
        min((row for row in rows if row.incarnation == gang), key=lambda row: (row.rank, row.uid))
        for gang in sorted(gangs)
    ]
