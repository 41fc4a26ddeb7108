"""The server: listens, keeps its connections in view, and ends in order."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from sterna.httpd.connection import Connection
from sterna.httpd.messages import Handler, Limits

log = logging.getLogger(__name__)

_SWEEP_S = 1.0


class HttpServer:
    """Serves `routes`, a handler for each (method, path), and `fallback` for every other path (None: 404).

    A handler gets the whole request and gives a Reply, or an awaitable of one. What it raises becomes a 500.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Handler],
        *,
        fallback: Handler | None = None,
        limits: Limits = Limits(),  # noqa: B008 - a value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.routes = routes
        self.fallback = fallback
        self.limits = limits
        self.clock = clock
        self.connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; the port that it became, which matters where 0 was asked for. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), host, port, ssl=tls, backlog=1024)
        self._sweep = loop.call_later(_SWEEP_S, self._look_around)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, *, grace_s: float = 2.0) -> None:
        """Take no more, answer what was asked within the grace, close."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self.connections):
            connection.close_when_idle()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self.connections):
            connection.abort()
        self._server = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Keep a handler that takes its time; for connections."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look_around(self) -> None:
        now_s = self.clock()
        for connection in tuple(self.connections):
            if connection.overdue(now_s):
                connection.abort()
        self._sweep = asyncio.get_running_loop().call_later(_SWEEP_S, self._look_around)
