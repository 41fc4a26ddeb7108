"""A monitor on a real socket with a clock that stands still, and a scheduler that keeps what it is told."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sterna.httpd import HttpServer, Reply, Request, call, problem
from sterna.httpd.client import Answered
from sterna.monitor import Monitor, Settings
from sterna.monitor.usage.gpus import Gpus
from sterna.protocol.reports import Answer, Batch, Report
from sterna.protocol.tokens import Gate, bearer, digest_of, job_token
from tests.httpd.wires import Clock
from tests.waiting import until_async

SECRET = "the-secret-of-these-tests"
TOKEN = job_token(SECRET, namespace="team", job="train", uid="u1")
NOW_S = 1_700_000_000.0


class Scheduler:
    """Takes batches as the real one promises to: by instance, by number, and only from those who may report."""

    def __init__(self) -> None:
        self.instance = "first"
        self.batches: list[Batch] = []
        self.reports: list[Report] = []
        self.follow: Mapping[str, str] = {}
        self.tokens = {digest_of(TOKEN): "team/train/u1"}  # of jobs that have pods on the monitor's node
        self.asked_tokens = 0  # times
        self.refusal: Reply | None = None
        self._gate = Gate(lambda: (SECRET,))
        self.strict = False  # refuses a whole batch for one report, as schedulers did before
        self._last: dict[tuple[str, str], int] = {}

    def start_anew(self, instance: str) -> None:
        self.instance = instance
        self.reports.clear()
        self._last.clear()

    def take(self, batch: Batch) -> Answer:
        self.batches.append(batch)
        self.asked_tokens += batch.asks_tokens
        if batch.instance not in ("", self.instance):
            return Answer(self.instance)
        taken = sum(self._is_taken(report) for report in batch.reports)
        refused = {refusal.place: refusal.why for refusal in batch.refused}
        tokens = self.tokens if batch.asks_tokens else None
        return Answer(self.instance, len(batch.reports) - taken, self.follow, refused, tokens)

    def _is_taken(self, report: Report) -> bool:
        sender = (report.pod, report.job_uid)
        if report.seq and report.seq <= self._last.get(sender, 0):
            return False
        self._last[sender] = report.seq
        self.reports.append(report)
        return True

    async def deliver(self, batch: Batch) -> Answer:
        return self.take(Batch.from_json(batch.to_json()))

    def handle(self, request: Request) -> Reply:
        owner = self._gate.owner_of(request.headers.get(b"authorization"))
        if owner is None or owner.job:
            return problem(401, "who are you?")
        if self.refusal is not None:
            return self.refusal
        batch = Batch.from_json(request.body)
        if self.strict and batch.refused:
            return problem(400, batch.refused[0].why)
        return Reply(self.take(batch).to_json())

    def values(self, pod: str = "team/train-worker-0") -> list[float | None]:
        return [report.value for report in self.reports if report.pod == pod and report.seq]


@asynccontextmanager
async def door(scheduler: Scheduler, port: int = 0) -> AsyncIterator[int]:
    """The scheduler's door on a real socket."""
    server = HttpServer({("POST", "/reports"): scheduler.handle})
    async with server:
        yield await server.start("127.0.0.1", port)


class Stage:
    def __init__(self, monitor: Monitor, port: int, scheduler: Scheduler, clock: Clock, wall: Clock) -> None:
        self.monitor = monitor
        self.scheduler = scheduler
        self.clock = clock
        self.wall = wall
        self.url = f"http://127.0.0.1:{port}"

    async def post(self, path: str, body: object, *, token: str | None = TOKEN) -> Answered:
        """`body`: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": bearer(token)}
        return await call("POST", self.url + path, body=raw, headers=headers)

    async def get(self, path: str, *, token: str | None = SECRET) -> Answered:
        return await call("GET", self.url + path, headers={} if token is None else {"Authorization": bearer(token)})

    async def workers(self, *, token: str = SECRET) -> dict[str, dict[str, Any]]:
        answered = await self.get("/workers", token=token)
        return {row["pod"]: row for row in json.loads(answered.body)["workers"]}

    async def alive(self) -> bool:
        return (await self.probe("/healthz")).status == 200

    async def probe(self, path: str) -> Answered:
        return await call("GET", f"http://127.0.0.1:{self.monitor.health_port}{path}")


@asynccontextmanager
async def staged(settings: Settings | None = None, **changes: Any) -> AsyncIterator[Stage]:
    """Nothing happens by itself: rounds are an hour apart, so that a test makes each of them when it wants it."""
    scheduler, clock, wall = Scheduler(), Clock(), Clock(NOW_S)
    quiet = Settings(
        node="node-1", port=0, health_port=0, forward_s=3600.0, follow_s=3600.0, measure_s=3600.0, silent_after_s=60.0
    )
    monitor = Monitor(
        replace(settings or quiet, **changes),
        secrets=lambda: (SECRET,),
        deliver=scheduler.deliver,
        gpus=Gpus(NoCards()),
        clock=clock,
        wall=wall,
    )
    port = await monitor.start()
    try:
        yield Stage(monitor, port, scheduler, clock, wall)
    finally:
        await monitor.stop()


class NoCards:
    """A management library on a machine without a card."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own name
        raise self.NVMLError("driver not loaded")


async def until(condition: Any) -> None:
    """Ask again and again; whoever waits has a deadline around it."""
    await until_async(condition)
