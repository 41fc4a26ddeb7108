"""A proxy before the API server that misbehaves on request: plain HTTP on loopback, the caller's token passed on.

with ChaosProxy(control_plane) as chaos:
    chaos.inject(Answer(409), method="PATCH", path="/status", times=3)
    chaos.inject(Cut(events=2), watch=True)
    run_against(chaos.kubeconfig("sterna"))

Rules are tried in the order they were given; the first that matches has its way with the request. Streams that are
upgraded (exec, port-forward) are not carried.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import Answer, Cut, Delay, Drop, Fault, Repeat, Swap, bent, random_fault
from tests.cluster.looping import LoopThread
from tests.cluster.ports import free_port

PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")


class Seen(NamedTuple):
    """A request, and what the caller was told; 0: nothing at all."""

    method: str
    path: str  # with its query
    status: int
    fault: Fault | None


@dataclass
class Rule:
    """A fault, and the requests that meet it."""

    fault: Fault
    method: str | None
    path: re.Pattern[str]
    watch: bool | None
    times: int | None  # None: for ever
    after: int  # so many matching requests pass unharmed first
    hits: int = 0
    _passed: int = field(default=0, repr=False)

    def meets(self, method: str, path: str) -> bool:
        """Counts: ask once for each request."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in (None, method) or not self.path.search(path):
            return False
        if self.watch is not None and self.watch != is_watch(path):
            return False
        if self._passed < self.after:
            self._passed += 1
            return False
        self.hits += 1
        return True


class ChaosProxy:
    def __init__(self, control_plane: ControlPlane) -> None:
        self._plane = control_plane
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.requests: list[Seen] = []
        self._rules: list[Rule] = []
        self._chance: random.Random | None = None
        self._rate = 0.0
        self._thread = LoopThread("chaos-proxy")
        self._runner: web.AppRunner | None = None

    def __enter__(self) -> Self:
        self._thread.run(self._open())
        self.accept()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.refuse()
        self._thread.run(self._session.close())
        self._thread.stop()

    def kubeconfig(self, user: str = "admin") -> Path:
        return self._plane.kubeconfig(user, server=self.url)

    def inject(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",  # searched for, as a regular expression, in path?query
        watch: bool | None = None,  # only watches, or only what is no watch
        times: int | None = 1,
        after: int = 0,
    ) -> Rule:
        """From now on, until it has happened so often. The rule counts in `hits`."""
        rule = Rule(fault, method, re.compile(path), watch, times, after)
        self._rules.append(rule)
        return rule

    def random(self, seed: int, *, rate: float = 0.1) -> None:
        """Any fault may meet any request, one in `1/rate`, until `clear`. The same seed draws the same faults."""
        self._rate = rate
        self._chance = random.Random(seed)

    def clear(self) -> None:
        """Nothing but a proxy."""
        self._rules.clear()
        self._chance = None

    def refuse(self) -> None:
        """Nobody listens any more; who was connected is cut off."""
        self._thread.run(self._shut())

    def accept(self) -> None:
        self._thread.run(self._listen())

    # -- how

    async def _open(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._plane.access().tls() or False)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=1 << 22)

    async def _listen(self) -> None:
        if self._runner is not None:
            return
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{anything:.*}", self._carry)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()

    async def _shut(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _carry(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path
        fault = self._fault_of(request.method, path)
        status = 0
        try:
            response = await self._meet(request, path, fault)
            status = response.status
            return response
        except (aiohttp.ClientError, OSError):  # the API server itself is away, or the caller is
            _hang_up(request)
            return web.Response(status=502)  # reaches nobody
        finally:
            self.requests.append(Seen(request.method, path, status, fault))

    def _fault_of(self, method: str, path: str) -> Fault | None:
        for rule in self._rules:
            if rule.meets(method, path):
                return rule.fault
        if self._chance is not None and self._chance.random() < self._rate:
            return random_fault(self._chance, watch=is_watch(path), write=method != "GET")
        return None

    async def _meet(self, request: web.Request, path: str, fault: Fault | None) -> web.StreamResponse:
        match fault:
            case Answer(forwarded=forwarded):
                if forwarded:
                    await self._forward(request, path)
                return web.Response(status=fault.status, body=fault.body(), headers=fault.headers())
            case Drop(forwarded=forwarded):
                if forwarded:
                    await self._forward(request, path)
                _hang_up(request)
                return web.Response(status=500)  # reaches nobody
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
                return await self._stream(request, path, None)
            case Cut() | Repeat() | Swap() | None:
                return await self._stream(request, path, fault)

    async def _forward(self, request: web.Request, path: str) -> None:
        """Done, and the answer thrown away."""
        async with await self._ask(request, path) as response:
            await response.read()

    async def _stream(self, request: web.Request, path: str, fault: Cut | Repeat | Swap | None) -> web.StreamResponse:
        async with await self._ask(request, path) as origin:
            kept = {name: value for name, value in origin.headers.items() if name in ("Content-Type", "Retry-After")}
            response = web.StreamResponse(status=origin.status, headers=kept)
            await response.prepare(request)
            async for piece in bent(_pieces(origin, is_watch(path)), fault):
                await response.write(piece)
            if isinstance(fault, Cut):
                _hang_up(request)
                return response
            with suppress(ConnectionResetError):
                await response.write_eof()
            return response

    async def _ask(self, request: web.Request, path: str) -> aiohttp.ClientResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers["Accept-Encoding"] = "identity"  # faults cut in plain text
        url = URL(self._plane.server + path, encoded=True)  # byte for byte what was asked
        return await self._session.request(request.method, url, data=await request.read() or None, headers=headers)


async def _pieces(origin: aiohttp.ClientResponse, lines: bool) -> AsyncIterator[bytes]:
    """Of a watch, line by line; of anything else as it comes."""
    if lines:
        async for line in origin.content:
            yield line
    else:
        async for chunk in origin.content.iter_any():
            yield chunk


def is_watch(path: str) -> bool:
    return re.search(r"[?&]watch=(1|true)", path) is not None


def _hang_up(request: web.Request) -> None:
    """As a network does: no end of the answer, no goodbye."""
    if request.transport is not None:
        request.transport.abort()
