"""The server: aiohttp reads and writes HTTP, `connections` limits which connections are taken, and for how long.

Ours are the table of handlers, the order of checks (admission, before a body is read), and what a body may cost.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from types import TracebackType
from typing import Self

from aiohttp import HttpVersion11, web

from sterna.connections.admission import Admission, bound
from sterna.connections.connection_limits import Limits
from sterna.connections.seldom import Seldom
from sterna.httpd.http_messages import Handler, Reply, Request, problem

log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_ONCE = frozenset({b"authorization", b"content-length", b"content-type", b"host", b"transfer-encoding"})
_LINGER_S = 2.0  # for reading on after a refusal: a reset would take the answer with it
_READ_BYTES = 1 << 16

_strangers = logging.getLogger(f"{__name__}.strangers")  # aiohttp's complaints about what it was sent
_strangers.addFilter(Seldom())


class HttpServer:
    """Serves `routes`, a handler for each (method, path), and `fallback` for every other path (None: 404).

    A handler gets the whole request and gives a Reply, or an awaitable of one. What it raises becomes a 500. `admit`
    is asked first, with the head only: a reply is a refusal, and no body is read.
    """

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Handler],
        *,
        fallback: Handler | None = None,
        admit: Callable[[Request], Reply | Awaitable[Reply | None] | None] = lambda _: None,
        limits: Limits = Limits(),  # noqa: B008 - a value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._routes = routes
        self._fallback = fallback
        self._admit = admit
        self._limits = limits
        self._clock = clock
        self.held_bytes = 0  # of bodies that are being read
        self._server: web.Server | None = None
        self.admission: Admission | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that it became, which matters where 0 was asked for. Raises OSError."""
        limits = self._limits
        server = web.Server(
            self._handle,
            access_log=None,
            logger=_strangers,
            auto_decompress=False,  # a small body stays one
            max_line_size=limits.line_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
            keepalive_timeout=limits.idle_s,
            lingering_time=_LINGER_S,
            read_bufsize=_READ_BYTES,
        )
        listeners = await bound(host, port)
        self._server = server
        self.admission = Admission(server, limits, refusal=_FULL, clock=self._clock)
        self.admission.open(listeners)
        return int(listeners[0].getsockname()[1])

    async def stop(self, *, grace_s: float = 2.0) -> None:
        """Take no more, answer what was asked within the grace, close."""
        if self._server is None or self.admission is None:
            return
        server, self._server = self._server, None
        await self.admission.close()
        server.pre_shutdown()
        await server.shutdown(grace_s)
        self.admission.send_all_away()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- a request ----------------------------------------------------------------------------------------------------

    async def _handle(self, asked: web.BaseRequest) -> web.Response:
        name = None if asked.transport is None else asked.transport.get_extra_info("peername")
        peer = (str(name[0]), int(name[1])) if name else None
        assert self.admission is not None
        with self.admission.at_work(peer):
            reply, is_last = await self._reply(asked, "" if peer is None else peer[0])
        response = web.Response(body=reply.body, status=reply.status)
        response.headers.update({"Content-Type": reply.content_type, "Server": "sterna", **reply.headers})
        if is_last or "Upgrade" in asked.headers or asked.method == "CONNECT":
            response.force_close()  # what follows is no request, or not one of HTTP/1.1
        return response

    async def _reply(self, asked: web.BaseRequest, peer: str) -> tuple[Reply, bool]:
        """And whether the connection is over: it is, if the request was refused before a handler was asked."""
        path, _, query = asked.raw_path.partition("?")
        headers: dict[bytes, bytes] = {}
        for name, value in asked.raw_headers:
            key = name.lower()
            if key in headers and key in _ONCE:
                return problem(400, f"the header {key.decode('latin-1')} came twice"), True
            headers[key] = value
        head = Request(asked.method, path, query, headers, b"", peer)
        try:
            refusal = self._admit(head)
            if isawaitable(refusal):
                refusal = await refusal
            if refusal is not None:
                return refusal, True
            body = await self._body(asked)
            if isinstance(body, Reply):
                return body, True
            reply = self._handler_of(head)(head._replace(body=body) if body else head)
            return (reply if isinstance(reply, Reply) else await reply if isawaitable(reply) else _NO_ANSWER), False
        except Exception:  # the boundary of a request: one that goes wrong is told so, the server goes on
            log.exception("request failed", extra={"method": head.method, "path": path[:200]})
            return problem(500, "an error of ours; it is in the log"), False

    async def _body(self, asked: web.BaseRequest) -> bytes | Reply:
        """Or why it was not read."""
        limits, length = self._limits, asked.content_length
        if length is not None and length > limits.body_bytes:
            return self._too_large()
        if asked.content.is_eof():  # it came with the head, as small ones do
            whole: bytes = asked.content.read_nowait()
            return whole if len(whole) <= limits.body_bytes else self._too_large()
        if asked.headers.get("Expect", "").lower() == "100-continue" and asked.version >= HttpVersion11:
            await asked.writer.write(_CONTINUE)
            asked.writer.output_size = 0  # the answer itself has not begun
        content = bytearray()
        try:
            async with asyncio.timeout(limits.body_s):
                async for part in asked.content.iter_any():
                    content += part
                    self.held_bytes += len(part)
                    if len(content) > limits.body_bytes:
                        return self._too_large()
                    if self.held_bytes > limits.bodies_bytes:
                        return _BUSY
        except TimeoutError:
            return problem(408, f"the body did not arrive within {limits.body_s:g} s")
        except (web.RequestPayloadError, ConnectionError, ValueError) as error:
            return problem(400, f"the body cannot be read: {error}")
        finally:
            self.held_bytes -= len(content)
        return bytes(content)

    def _too_large(self) -> Reply:
        return problem(413, f"a body may have {self._limits.body_bytes} bytes at most")

    def _handler_of(self, request: Request) -> Handler:
        method = "GET" if request.method == "HEAD" else request.method
        handler = self._routes.get((method, request.path))
        if handler is not None:
            return handler
        allowed = [way for way, path in self._routes if path == request.path]
        if allowed:
            return lambda _: problem(405, f"{request.path} takes {', '.join(allowed)}")._replace(
                headers={"Allow": ", ".join(allowed)}
            )
        return self._fallback or (lambda _: problem(404, "there is nothing here"))


_NO_ANSWER = problem(500, "the handler gave no answer")
_BUSY = problem(503, "too many bodies are being read; try again")._replace(headers={"Retry-After": "1"})
