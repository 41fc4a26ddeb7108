"""The API on a port of loopback, inside the event loop that the engine already runs.

It is announced in the home once it listens, and the announcement is taken back when it stops. Signals belong to whoever
runs the loop; nothing is logged about requests.
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sterna.engines.door.door import Door
from sterna.engines.door.household import Household
from sterna.interfaces.api.app import Stop, build_app
from sterna.interfaces.api.endpoint import Endpoint, announce, own_token, prepare_home, withdraw
from sterna.interfaces.api.port import Scheduler
from sterna.interfaces.api.problems import MEDIA_TYPE, Problem

_HEADERS_BYTES_MAX = 1 << 15
_FAREWELL_S = 1  # for answers that are under way; whoever follows a log is cut off
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
            log_level="critical",  # whoever is cut off at the end is no error; what goes wrong in the app, it logs
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            timeout_graceful_shutdown=_FAREWELL_S,
        )
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
    """Uvicorn without its own signal handlers, and without waking ten times a second to see whether to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leaving = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.leaving.wait()


class _Protocol(H11Protocol):
    """What is no HTTP at all never reaches the app; it gets a problem document all the same."""

    def send_400_response(self, msg: str) -> None:
        body = json.dumps(Problem(400, "malformed", "this is no HTTP request").record).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
