"""Ways to an API server for these tests: the real one as some user, and a peer that answers whatever it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

from sterna.engines.kubernetes.apiserver.client import Client, Configuration, Limits, connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.client.http import Asked
from tests.cluster.control_plane import ControlPlane
from tests.waiting import until_async

R = TypeVar("R")
PATIENCE_S = 120.0
QUICK = Limits(backoff_s=0.01, backoff_max_s=0.05, retry_after_max_s=0.05, request_s=30.0)


def run(work: Coroutine[Any, Any, R]) -> R:
    """In an event loop of its own, and not for ever."""

    async def bounded() -> R:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    return asyncio.run(bounded())


async def until(holds: Callable[[], bool], what: str) -> None:
    await until_async(holds, what, patience_s=PATIENCE_S / 2)


def opened(
    plane: ControlPlane, user: str = "admin", *, limits: Limits | None = None
) -> AbstractAsyncContextManager[Client]:
    return connect(from_kubeconfig([plane.kubeconfig(user)]), limits=limits or Limits())


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


class Received(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]


Reply = Callable[[web.Request, Received], Awaitable[web.StreamResponse]]


class Peer:
    """A server on loopback. `reply` is asked for each request; what came is in `received`."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.received: list[Received] = []
        self.server = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        received = Received(
            request.method, request.path, dict(request.query), await request.read(), dict(request.headers)
        )
        self.received.append(received)
        return await self.reply(request, received)

    def configuration(self, **changes: Any) -> Configuration:
        return Configuration(server=self.server, source="the test", **changes)


@asynccontextmanager
async def peer(reply: Reply) -> AsyncIterator[Peer]:
    found = Peer(reply)
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    found.server = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        await runner.cleanup()


@asynccontextmanager
async def peer_client(
    reply: Reply, *, limits: Limits = QUICK, observe: Callable[[Asked], None] | None = None
) -> AsyncIterator[tuple[Peer, Client]]:
    async with peer(reply) as found, connect(found.configuration(), limits=limits, observe=observe) as client:
        yield found, client


def replies(*answers: "web.Response | str | Exception") -> Reply:
    """One after the other; the last one for ever. A text is a word for what happens to the connection."""
    left = list(answers)

    async def reply(request: web.Request, received: Received) -> web.StreamResponse:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, web.Response):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        assert answer == "cut"
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return reply


def found(name: str, version: str = "1", **more: Any) -> web.Response:
    return web.json_response({"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version}, **more})


def status(code: int, reason: str, message: str = "as told", **details: Any) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    headers = {"Retry-After": str(details.pop("retry_after"))} if "retry_after" in details else {}
    return web.Response(
        status=code,
        text=json.dumps(body | ({"details": details} if details else {})),
        headers={"Content-Type": "application/json", **headers},
    )
