"""A server on a real socket, and raw bytes to it: what the tests of servers share."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from sterna.httpd import Handler, HttpServer, Limits, Reply, Request, json_reply
from tests.waiting import others_run

T = TypeVar("T")

DEADLINE_S = 60.0


def bounded(scene: Callable[[], Awaitable[T]]) -> T:
    """Run to its end; a test that hangs is a failure, not a hang."""

    async def run() -> T:
        async with asyncio.timeout(DEADLINE_S):
            return await scene()

    return asyncio.run(run())


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class House:
    """Handlers to ask: what came in is kept, what takes time waits until it is let go."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.let_go = asyncio.Event()
        self.slowly = asyncio.Event()  # somebody waits for the slow one

    def echo(self, request: Request) -> Reply:
        self.seen.append(request)
        return Reply(request.body)

    async def slow(self, request: Request) -> Reply:
        self.slowly.set()
        await self.let_go.wait()
        return Reply(b"slow " + request.body)

    def broken(self, request: Request) -> Reply:
        raise RuntimeError("a secret of the handler")

    async def broken_later(self, request: Request) -> Reply:
        raise RuntimeError("a secret of the handler")

    def big(self, request: Request) -> Reply:
        return Reply(b"x" * (8 << 20))

    def described(self, request: Request) -> Reply:
        return json_reply({"path": request.path, "query": request.query, "agent": request.header("User-Agent")})


@asynccontextmanager
async def serving(
    limits: Limits = Limits(),  # noqa: B008 - a value
    admit: Callable[[Request], Reply | None] = lambda _: None,
) -> AsyncIterator[tuple[House, int, HttpServer]]:
    house = House()
    routes: dict[tuple[str, str], Handler] = {
        ("POST", "/echo"): house.echo,
        ("PUT", "/echo"): house.echo,
        ("POST", "/slow"): house.slow,
        ("GET", "/broken"): house.broken,
        ("GET", "/broken-later"): house.broken_later,
        ("GET", "/big"): house.big,
        ("GET", "/described"): house.described,
    }
    server = HttpServer(routes, limits=limits, admit=admit)
    port = await server.start("127.0.0.1", 0)
    async with server:
        yield house, port, server


async def exchange(port: int, *parts: bytes, until: bytes = b"") -> bytes:
    """Send the parts as they are; everything that came back until the other side closed, or until it ends so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await others_run()
        got = b""
        while data := await reader.read(1 << 16):
            got += data
            if until and got.endswith(until):
                break
        return got
    except ConnectionResetError:
        return got
    finally:
        writer.transport.abort()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def statuses(answers: bytes) -> list[int]:
    return [int(piece[:3]) for piece in re.split(rb"HTTP/1\.[01] ", answers)[1:]]
