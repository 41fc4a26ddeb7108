"""The door on a port: requests as they come in over HTTP, until cancelled."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from sterna.engines.door.answers import Answer
from sterna.engines.door.door import REPORTS_BYTES_MAX, Door
from sterna.httpd import HttpServer, Limits, Reply, Request, limits_from
from sterna.model.errors import InvalidRequest
from sterna.protocol.tokens import SECRET_BYTES_MIN, TokenFile

log = logging.getLogger(__name__)


_LIMITS = Limits(connections=512, body_bytes=REPORTS_BYTES_MAX)  # there may be a monitor on each of 500 nodes


async def serve_door(door: Door, *, host: str, port: int, told: Callable[[int], None] = lambda _: None) -> None:
    """Until cancelled. `told` hears the port that it listens on: 0 asks for any that is free. Raises OSError."""

    async def admit(request: Request) -> Reply | None:
        objection = await door.objection(request.header("authorization"))
        return None if objection is None else _reply(objection)

    async def handle(request: Request) -> Reply:
        answer = await door.answer(
            request.method, request.path, authorization=request.header("authorization"), body=request.body
        )
        return _reply(answer)

    limits = limits_from(os.environ, _LIMITS)
    async with HttpServer({}, fallback=handle, admit=admit, limits=limits) as server:
        bound = await server.start(host, port)
        told(bound)
        log.info("the door is open", extra={"host": host, "port": bound})
        await asyncio.Event().wait()


def _reply(answer: Answer) -> Reply:
    return Reply(answer.body, answer.status, answer.media_type, answer.headers)


def secrets_in(path: Path, *, field: str = "--token-file") -> TokenFile:
    """The installation's secrets, read again when the file changes. `InvalidRequest`: there is none that will do."""
    file = TokenFile(path)
    if not any(len(line) >= SECRET_BYTES_MIN for line in file.lines()):
        expected = f"a file with a secret of at least {SECRET_BYTES_MIN} characters, which this process may read"
        raise InvalidRequest(field=field, value=str(path), expected=expected)
    return file
