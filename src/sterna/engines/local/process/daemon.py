"""A local engine from its start to its end: the parts wired together, what is found of an earlier one, what is left.

Requests of users are `service.py`; here is what happens without a request.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from sterna.engines.distribution import DistributionFile
from sterna.engines.local.launch.warden.client import WardenClient, connect_or_start
from sterna.engines.local.launch.warden.values import Census, Limits, ProcessState
from sterna.engines.local.loop.carry_out import Hands
from sterna.engines.local.loop.cycles import SchedulerLoop
from sterna.engines.local.loop.decision_events import DecisionEvents
from sterna.engines.local.loop.engine import LocalEngine
from sterna.engines.local.loop.job_runner import Runner
from sterna.engines.local.loop.rules import Rules
from sterna.engines.local.migrations import asked_moves
from sterna.engines.local.process.assembly import LocalConfig, open_book
from sterna.engines.local.process.disk_watch import Storage
from sterna.engines.local.process.home import Home
from sterna.engines.local.process.job_retention import Keeping
from sterna.engines.local.progress.embedded_monitor import Watching
from sterna.engines.local.progress.report_intake import Reporting
from sterna.engines.local.reconcile import lost_seats
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.world.job_value import holding
from sterna.engines.local.world.machine_nodes import offered_nodes
from sterna.engines.local.world.node_index import Roster
from sterna.engines.local.world.worker_usage import Meter
from sterna.engines.pacing import Happening
from sterna.journal.decision_journal import DecisionJournal
from sterna.model.errors import Conflict, EngineUnavailable, NotFound
from sterna.model.phases import Trigger, after
from sterna.protocol import WakeSocket

log = logging.getLogger(__name__)

_STOP_S = 120.0  # how long jobs may take to stop when the engine is stopped; their grace periods count within it


class Life:
    def __init__(self, config: LocalConfig) -> None:
        self.home = Home(config.home)
        self.home.prepare()
        self.home.acquire()
        try:
            self.book = open_book(config, self.home.database)
            self.roster = Roster(offered_nodes(config.nodes), self.book.store.nodes())
            self.rules = Rules(self.book, config, on_proposals=self._asked_for)
        except BaseException:
            self.home.release()
            raise
        self.config = config
        self.opened_s = self.book.timeline.now()
        self.limits: Limits | None = None
        self.distribution = DistributionFile(self.home.distribution)
        self.engine = LocalEngine(self.book, self.roster, on_intended=self.mark, on_considered=self.distribution.write)
        self._meter = Meter()
        self.reporting = Reporting(self.book)
        self.watching = Watching(self.book, self.home, secret=config.monitor_secret, deliver=self.reporting.answer)
        kept = None if config.shapes is None else DecisionJournal(self.home.journal, config.shapes)
        self.journal = DecisionEvents(self.book, kept)
        self.storage = Storage(self.book, self.home, tell=self._write_at_once)
        self.keeping = Keeping(self.book, self.home, on_dropped=self._dropped)
        self.loop: SchedulerLoop | None = None  # None: not running yet
        self.book.accelerators = {node.id: node.accelerator for node in self.roster.cluster.nodes}
        self.book.on_event = self._tell_waiters
        self.book.on_growth = lambda: self.notice(Happening.GROWTH_CHANGED)
        self._warden: WardenClient | None = None
        self._runner: Runner | None = None
        self._hands: Hands | None = None
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._arrival_s = max((job.row.submitted_s for job in self.book.jobs.values()), default=0.0)

    # -- beginning and end --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Everything, until `close` or cancellation. Jobs live on after cancellation: the warden holds them."""
        self._running = asyncio.current_task()
        events = asyncio.get_running_loop()
        with contextlib.ExitStack() as at_the_end:  # each of these is tried, whatever becomes of the others
            at_the_end.callback(self.home.release)
            at_the_end.callback(self.book.store.close)
            at_the_end.callback(self._write_the_rest)
            wake = WakeSocket(self.home.root / "wake.sock")
            at_the_end.callback(wake.close)
            self._warden = await connect_or_start(
                self.home.root, on_exit=self._on_exit, on_lost=self._on_lost, cgroups=self.config.cgroups
            )
            at_the_end.callback(self._warden.close)
            self.limits = await self._warden.limits()
            loop = self._built(self._warden, wake.path)
            self.storage.look()  # the reserve is there before anything else could fill the disk
            await self._adopt(self._warden)
            await self.watching.resume()
            events.add_reader(wake.fileno(), loop.woken, wake)
            at_the_end.callback(events.remove_reader, wake.fileno())
            self._ready.set()
            at_the_end.callback(self._ready.clear)
            try:
                await loop.run()
            finally:
                await self.watching.stop()

    async def ready(self) -> None:
        """Until jobs are looked after."""
        await self._ready.wait()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def close(self, *, stop_jobs: bool) -> None:
        """End `run`. With `stop_jobs` all jobs commit and stop first, and wait in the store for the next start."""
        if self._running is None:
            self.book.store.close()
            self.home.release()
            return
        if stop_jobs and self._ready.is_set():
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._stop_all()
            except TimeoutError:
                log.warning("some jobs did not stop in time and run on", extra={"seconds": _STOP_S})
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _stop_all(self) -> None:
        assert self.loop is not None
        assert self._runner is not None
        self.loop.pause_cycles()
        self._runner.closing = True
        for job in self.book.jobs.values():
            self.loop.mark(job)
        while any(job.live for job in self.book.jobs.values()) or not self.loop.at_rest:
            await asyncio.sleep(0.02)
        message = "the engine was stopped; it goes on when the engine does"
        for job in self.book.jobs.values():
            if job.row.assigned and not job.row.finished:
                values = holding(job.row, job.spec, (), self.book.timeline.now(), comes_back=False)
                phase = after(job.row.phase, Trigger.PREEMPTED)
                self.book.set_job(
                    job, **values, phase=phase, reason="EngineStopped", message=message, change=None, warm=False
                )
        self.book.commit("stopped")
        if self._warden is not None:
            with contextlib.suppress(Conflict, EngineUnavailable):
                await self._warden.leave()

    def _write_the_rest(self) -> None:
        self.keeping.close()
        for errand in self._errands:
            errand.cancel()
        if self._hands is not None:
            self._hands.stop_hooks()
        self.journal.close()
        with contextlib.suppress(EngineUnavailable):
            self.book.commit("closing", soft=True)

    def _built(self, warden: WardenClient, wake: Path) -> SchedulerLoop:
        config = self.config
        self._hands = Hands(
            self.book,
            self.home,
            warden,
            wake=wake,
            real_gpus=self.roster.real_gpus,
            pinned=self.limits is not None and not self.limits.cpu.enforced and self.limits.affinity.enforced,
            on_dirty=self.mark,
            on_effect=config.on_effect,
            inherited=config.inherited,
            offered=self.roster.offered,
            environment_of=self.watching.environment_of,
        )
        self._runner = Runner(self.book, self.home, self._hands, warm_s=config.warm_s, letters=config.letters)
        self.loop = SchedulerLoop(
            self.book,
            self.engine,
            self._runner,
            self.journal,
            self.rules,
            on_cycle=self._after_cycle,
            on_gone=self.keeping.nothing_runs,
            on_scan=self._measure,
            on_carried=self.storage.could_not,
        )
        return self.loop

    async def _adopt(self, warden: WardenClient) -> None:
        """What the warden holds, compared with the store: known ones go on, strangers are killed."""
        assert self._runner is not None
        held = self.book.held()
        census = await warden.list_all()
        states = {state.id: state for state in census.processes}
        for job in self.book.jobs.values():
            self._runner.adopt(job, states, held)
            lost_seats.leave_all_but(self.book, job, self.roster.offered)
        self.book.commit("adopt")
        await self._remove_strangers(census)

    # -- news ---------------------------------------------------------------------------------------------------------

    def mark(self, job: LocalJob) -> None:
        """Something happened to this job."""
        if self.loop is not None:
            self.loop.mark(job)

    def notice(self, happening: Happening) -> None:
        """Something happened that a decision may depend on."""
        if self.loop is not None:
            self.loop.notice(happening)

    def next_arrival_s(self) -> float:
        """Now, and later than every arrival before: the order of arrival is total."""
        self._arrival_s = max(self.book.timeline.now(), self._arrival_s + 1e-6)
        return self._arrival_s

    async def next_news(self) -> None:
        """Until something is written that people may wait for."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _measure(self) -> None:
        """What workers use, and which of them are to be watched; those that are gone are forgotten."""
        pids = {
            process.row.uid: process.row.pid
            for job in self.book.busy.values()
            for process in job.live
            if process.row.pid is not None
        }
        self.storage.look()
        self.watching.look()
        self.book.used = self._meter.measured(pids, self.config.clock.mono()) if pids else {}

    def _write_at_once(self) -> None:
        """Trouble with the disk is told now; what cannot be written is told from memory, and written later."""
        with contextlib.suppress(EngineUnavailable):
            self.book.commit("storage")

    def _asked_for(self, some: bool) -> None:
        self.journal.asked_for = self.journal.asked_for or some

    def _after_cycle(self) -> None:
        asked_moves.refuse_rest(self.book)
        self.journal.asked_for = False
        self.book.commit("after cycle")

    def _on_exit(self, state: ProcessState) -> None:
        if state.id not in self.book.by_process:
            self._send(self._remove(state))
        elif self.loop is not None:
            self.loop.ended(state)

    def _on_lost(self) -> None:
        """The warden is gone, and with it the processes it held, which its successor tells."""
        self._send(self._look_again())

    async def _look_again(self) -> None:
        if self._warden is None or self._runner is None or self.loop is None:
            return
        while True:
            held = self.book.held()
            try:
                census = await self._warden.list_all()
                break
            except EngineUnavailable as error:
                log.warning("the warden does not answer", extra={"why": str(error)})
                await asyncio.sleep(error.retry_after_s)
        states = {state.id: state for state in census.processes}
        for job in self.book.jobs.values():
            self._runner.adopt(job, states, held)
            self.loop.mark(job)
        await self._remove_strangers(census)

    async def _remove_strangers(self, census: Census) -> None:
        for state in census.processes:
            if state.id not in self.book.by_process:
                await self._remove(state)

    async def _remove(self, state: ProcessState) -> None:
        """A process that the store does not know: of a job that was deleted, or of a store older than the warden."""
        if self._warden is None:
            return
        with contextlib.suppress(EngineUnavailable, NotFound):
            if state.alive:
                await self._warden.stop(state.id, grace_s=0.0)  # its end is told, and then it is forgotten
            else:
                await self._warden.forget(state.id)

    def _dropped(self, job: LocalJob) -> None:
        self.reporting.forget(job.row.uid)
        if self._hands is not None:
            self._send(self._hands.release(job))

    def _send(self, errand: Coroutine[Any, Any, None]) -> None:
        """Something to be done that is not waited for, and that may fail without harm."""

        async def run() -> None:
            with contextlib.suppress(EngineUnavailable):
                await errand

        task = asyncio.get_running_loop().create_task(run())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
