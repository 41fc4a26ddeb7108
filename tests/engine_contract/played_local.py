"""The local engine with processes that a story plays: its own loop, store and mailboxes, and no process at all."""

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

from sterna.engines.local.api.service import LocalScheduler
from sterna.engines.local.loop.cycles import SchedulerLoop
from sterna.engines.local.process import daemon
from sterna.engines.local.process.daemon import Life
from sterna.engines.local.store.job_book import LocalJob, LocalProcess
from sterna.engines.local.world.job_value import value_of
from sterna.model.errors import Conflict, InvalidRequest
from sterna.model.ids import JobId
from sterna.model.plan import Step
from sterna.protocol import Status, WorkerPhase, read_orders
from sterna.protocol.mailbox import write_status
from tests.engine_contract.facts import Declared, Says, Seen
from tests.engine_contract.played_warden import PlayedWarden
from tests.engine_contract.played_world import POLICY, PlayedWorld, seen_of, until
from tests.engine_contract.worlds import GPUS, NODES, WAIT_S
from tests.engines.local.lab import config, fresh_home

_LOOKS = 3
_NO_PROCESS = 1 << 22  # above the largest pid there is


class PlayedLocal(PlayedWorld):
    @classmethod
    @asynccontextmanager
    async def begun(cls) -> AsyncIterator[PlayedWorld]:
        world = cls()
        try:
            await world.open()
            yield world
            await world._life.close(stop_jobs=False)
        finally:
            shutil.rmtree(world._home.parent, ignore_errors=True)

    def __init__(self) -> None:
        super().__init__()
        self._home = fresh_home()
        self._warden = PlayedWarden(self.clock)

    async def open(self) -> None:
        settings = config(self._home, nodes=NODES, gpus=GPUS, clock=self.clock, policy=POLICY, rate_limit_s=0.0)
        self._life = Life(settings)
        self._scheduler = LocalScheduler(self._life)
        with patch.object(daemon, "connect_or_start", self._warden.connected):
            self._running = asyncio.create_task(self._life.run())
            async with asyncio.timeout(WAIT_S):
                await self._life.ready()
        self._loop.pause_cycles()

    async def submit(self, job: Declared) -> None:
        await self._scheduler.submit(json.dumps(job.manifest()), cwd=str(self._home))

    async def end(self, job: str, worker: str, code: int) -> None:
        process = self._process(job, worker)
        self._warden.end(process.row.uid, code)

    async def say(self, said: Says) -> None:
        process = min(self._job(said.job).live, key=lambda process: process.row.rank)
        status = Status(
            pid=_NO_PROCESS,
            phase=WorkerPhase.TRAINING,
            step=int(said.done),
            epoch=said.epoch,
            units_done=said.done,
            units_total=said.total,
            metrics={} if said.loss is None else {"loss": said.loss},
        )
        write_status(self._mailbox(said.job, process), status)
        self._wake(process)
        await until(lambda: process.status == status, f"{said.job} is heard", patience_s=WAIT_S)

    async def time_passed(self) -> None:
        for job in self._life.book.jobs.values():
            self._loop.mark(job)

    async def set_node_ready(self, node: str, *, ready: bool) -> None:
        await self._scheduler.set_ready(node, ready=ready)

    async def silence_node(self, node: str) -> None:
        raise NotImplementedError("a node of this engine is there or is lost")

    async def cordon(self, node: str) -> None:
        raise NotImplementedError("a node of this engine is drained or is not")

    async def drain(self, node: str) -> None:
        await self._scheduler.drain(node)

    async def suspend(self, job: str, *, suspended: bool) -> None:
        await (self._scheduler.suspend(job) if suspended else self._scheduler.resume(job))

    async def scale(self, job: str, at_least: int, at_most: int) -> None:
        await self._scheduler.scale(job, minimum=at_least, maximum=at_most, workers=None)

    async def delete(self, job: str) -> None:
        await self._scheduler.delete(job)

    async def ask_move(self, job: str, to: str) -> None:
        try:
            await self._scheduler.migrate(job, worker=None, to=to)
        except (Conflict, InvalidRequest) as error:
            self.refusals[job] = str(error)

    async def hold_starts(self, *, held: bool) -> None:
        self._warden.hold_starts(held=held)

    async def hold_stops(self, *, held: bool) -> None:
        self._warden.hold_stops(held=held)

    async def end_scheduler(self) -> None:
        await self._life.close(stop_jobs=False)

    async def begin_scheduler(self) -> None:
        await self.open()

    async def serve(self, name: str, gpus: int) -> None:
        raise NotImplementedError("nothing but training runs on this engine's nodes")

    async def settle(self) -> None:
        """Until nothing is left to do but what is held back, at several looks: an end comes a turn later."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            if self._running.done():
                self._running.result()
            self._obey()
            carried = self._loop._carried
            waits = any(job_id not in carried for job_id in self._loop._dirty)
            quiet = 0 if waits or len(carried) > self._warden.held_starts else quiet + 1
            return quiet >= _LOOKS

        await until(is_quiet, "nothing is left to do", patience_s=WAIT_S)

    async def cycle(self) -> tuple[Step, ...]:
        await self._loop._cycle()
        if self._loop.problem:
            raise RuntimeError(self._loop.problem)
        decision = self._life.engine.decision
        return () if decision is None else decision.steps

    async def seen(self, job: str) -> Seen:
        found = self._life.book.jobs.get(JobId(f"default/{job}"))
        events = {str(event["reason"]): str(event["message"]) for event in await self._scheduler.events(job)}
        if found is None or found.row.deleting:
            return Seen(events=tuple(events))
        moves = await self._scheduler.migrations(job)
        refused = [str(move["message"]) for move in moves if move["phase"] == "Refused"]
        return seen_of(
            found.row,
            found.spec,
            found.workload,
            found.row.conditions,
            clock=self.clock,
            units_left=value_of(found, self._life.book.knowledge).units_left,
            events=events,
            refusal=self.refusals.get(job) or next(iter(refused), ""),
        )

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def _loop(self) -> SchedulerLoop:
        assert self._life.loop is not None
        return self._life.loop

    def _job(self, name: str) -> LocalJob:
        return self._life.book.jobs[JobId(f"default/{name}")]

    def _process(self, job: str, worker: str) -> LocalProcess:
        live = self._job(job).live
        (found,) = [process for process in live if f"{process.row.role}-{process.row.ordinal}" == worker]
        return found

    def _mailbox(self, job: str, process: LocalProcess) -> str:
        return str(self._life.home.mailbox(self._job(job).row.uid, process.row.uid))

    def _wake(self, process: LocalProcess) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(process.row.uid.encode(), str(self._life.home.root / "wake.sock"))

    def _obey(self) -> None:
        """A program that speaks does as it is told: it saves, says so and ends."""
        for job in self._life.book.jobs.values():
            for process in job.live:
                state = self._warden.states.get(process.row.uid)
                if process.status is None or state is None or not state.alive:
                    continue
                orders = read_orders(self._mailbox(job.workload.name, process))
                if orders is not None and orders.order == "stop" and process.status.ack < orders.seq:
                    self._warden.end(process.row.uid, 0)
