"""The API on a port of loopback, inside the event loop that the engine already runs.

It is announced in the home once it listens, and the announcement is taken back when it stops. Signals belong to the
caller, which runs the loop; nothing is logged about requests.
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sterna.connections import Admission, Limits, limits_from
from sterna.engines.door.door import Door
from sterna.engines.door.household import Household
from sterna.interfaces.api.app import Stop, build_app
from sterna.interfaces.api.engine_home import Endpoint, announce, own_token, prepare_home, withdraw
from sterna.interfaces.api.problem_details import MEDIA_TYPE, Problem
from sterna.interfaces.api.request_values import BODY_S
from sterna.interfaces.scheduler_port import Scheduler

_HEADERS_BYTES_MAX = 1 << 15  # unfinished ones included: that is what h11 counts and httptools does not
_LIMITS = Limits(per_address=192, answer_s=3600.0)  # all come from loopback; a pager may be left alone for a while
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_FAREWELL_S = 1  # for answers that are under way; a log that is followed is cut off
_STOPS_WITHIN_S = 5.0


@asynccontextmanager
async def serving(
    scheduler: Scheduler,
    *,
    home: Path,
    listener: socket.socket,
    stop: Stop,
    household: Household | None = None,  # what the door opens onto. None: there is no door
) -> AsyncIterator[Endpoint]:
    """Answer requests for as long as the block runs."""
    prepare_home(home)
    token = own_token(home)
    door = None if household is None else Door(household, lambda: (token,))
    app = build_app(scheduler, token=token, stop=stop, door=door)
    limits = limits_from(os.environ, _LIMITS)
    host, port = listener.getsockname()
    endpoint = Endpoint(host, port, os.getpid())
    server = _Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # an answer cut off at the end is no error; what goes wrong in the app, it logs
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            timeout_graceful_shutdown=_FAREWELL_S,
        ),
        app,
        limits,
    )
    task = asyncio.create_task(server.serve([listener]))  # no task group: errors of the block keep their class
    try:
        while not (server.started or task.done()):
            await asyncio.sleep(0.01)
        announce(home, endpoint)
        yield endpoint
    finally:
        withdraw(home, endpoint)
        server.leaving.set()
        await asyncio.wait([task], timeout=_STOPS_WITHIN_S)
        task.cancel()


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers, without waking ten times a second to see whether to stop, and with an
    accept loop that has limits: uvicorn's takes every connection, and without a file to spare it logs without end.
    """

    def __init__(self, config: uvicorn.Config, app: ASGIApp, limits: Limits) -> None:
        super().__init__(config)
        self.leaving = asyncio.Event()
        self._admission = Admission(self._protocol, limits, refusal=_FULL)
        config.app = _AtWork(app, self._admission, body_s=limits.body_s)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = []
        self._admission.open(sockets or [])
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._admission.close()
        await super().shutdown(sockets)
        self._admission.send_all_away()

    def _protocol(self) -> asyncio.Protocol:
        return _Protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.leaving.wait()


class _AtWork:
    """Tells the accept loop which connections have a request at work, and requests how long a body may take."""

    def __init__(self, app: ASGIApp, admission: Admission, *, body_s: float) -> None:
        self._app = app
        self._admission = admission
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[BODY_S] = self._body_s
        with self._admission.at_work(scope.get("client")):
            await self._app(scope, receive, send)


class _Protocol(H11Protocol):
    """What is no HTTP at all never reaches the app; it gets a problem document all the same."""

    _refused = False

    def send_400_response(self, msg: str) -> None:
        body = json.dumps(Problem(400, "malformed", "this is no HTTP request").record).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # the handler that reads this body learns that there is no more of it
        else:
            self._refused = True
            self.transport.write_eof()  # with bytes unread, a close would be a reset and take the answer with it

    def data_received(self, data: bytes) -> None:
        if not self._refused:  # else it is thrown away, until they hang up or their time for a head is over
            super().data_received(data)
