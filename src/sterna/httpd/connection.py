"""One connection: bytes in, requests out to handlers, answers back in the order of the requests.

Handlers that answer at once are called right where their request ends, and all answers of one read leave in one write:
that is what makes pipelined small requests cheap. Behind a handler that takes its time requests wait in line, and when
the line is long enough nothing more is read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Protocol

import httptools

from sterna.httpd.messages import Handler, Limits, Reply, Request, problem

log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Desk(Protocol):
    """What a connection needs of its server."""

    routes: Mapping[tuple[str, str], Handler]
    fallback: Handler | None
    limits: Limits
    connections: "set[Connection]"
    clock: Callable[[], float]

    def spawn(self, task: "asyncio.Task[None]") -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._limits = desk.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._since_s = desk.clock()  # of what is being waited for: see `overdue`
        self._receiving = False  # a request has begun and not ended
        self._out: list[bytes] = []
        self._line: deque[tuple[Request, bool]] = deque()
        self._working = False  # an awaitable handler is at it
        self._last: bytes | None = None  # a refusal that must not overtake the answers before it
        self._closing = False  # nothing that comes is looked at any more
        self._clogged = False  # the other side does not take what we wrote
        self._begin()

    # -- asyncio's side -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        crowded = len(self._desk.connections) >= self._limits.connections
        self._desk.connections.add(self)
        if crowded:
            self._refuse(503, "too many connections; try again")
            self._flush()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._receiving:
            self._since_s = self._desk.clock()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._hang_up()  # the request itself was answered; whatever follows is another language
        except httptools.HttpParserError as error:
            if not self._closing:  # a callback that has refused already says it better
                self._refuse(400, f"not HTTP/1.1: {error}")
        self._flush()

    def eof_received(self) -> bool:
        return self._working or bool(self._line)  # who asked and will not ask more is still answered

    def pause_writing(self) -> None:
        self._clogged = True
        self._since_s = self._desk.clock()
        self._read_or_not()

    def resume_writing(self) -> None:
        self._clogged = False
        self._since_s = self._desk.clock()
        self._read_or_not()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._transport = None
        self._line.clear()
        self._desk.connections.discard(self)

    # -- httptools' side ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begin()
        self._receiving = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)
        if self._head_bytes > self._limits.head_bytes:
            self._too_long()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._limits.head_bytes:
            self._too_long()
        elif len(self._headers) > self._limits.headers:
            self._too_much(431, f"at most {self._limits.headers} headers are read")

    def on_headers_complete(self) -> None:
        length = self._headers.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > self._limits.body_bytes:
            self._too_much(413, f"a body may have {self._limits.body_bytes} bytes at most")
        elif self._headers.get(b"expect", b"").lower() == b"100-continue" and not self._closing:
            self._out.append(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            self._too_much(413, f"a body may have {self._limits.body_bytes} bytes at most")

    def on_message_complete(self) -> None:
        if self._closing:
            return
        self._receiving = False
        self._since_s = self._desk.clock()
        path, _, query = self._url.decode("latin-1").partition("?")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = Request(self._parser.get_method().decode("latin-1"), path, query, self._headers, body, self._peer)
        keep_alive = self._parser.should_keep_alive()
        if self._working or self._line:
            self._line.append((request, keep_alive))
            self._read_or_not()
        else:
            self._answer(request, keep_alive)

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, keep_alive: bool) -> None:
        try:
            reply = self._handler_of(request)(request)
        except Exception:
            reply = self._broken(request)
        if isinstance(reply, Reply):
            self._send(request, reply, keep_alive)
        else:
            self._working = True
            self._desk.spawn(asyncio.ensure_future(self._await(request, reply, keep_alive)))

    async def _await(self, request: Request, coming: object, keep_alive: bool) -> None:
        try:
            reply = await coming if isawaitable(coming) else problem(500, "the handler gave no answer")
        except Exception:
            reply = self._broken(request)
        finally:
            self._working = False
        self._since_s = self._desk.clock()
        self._send(request, reply, keep_alive)
        while self._line and not self._working:
            self._answer(*self._line.popleft())
        if self._last is not None and not self._working:
            self._out.append(self._last)
        self._flush()
        self._read_or_not()

    def _handler_of(self, request: Request) -> Handler:
        method = "GET" if request.method == "HEAD" else request.method
        handler = self._desk.routes.get((method, request.path))
        if handler is not None:
            return handler
        allowed = [way for way, path in self._desk.routes if path == request.path]
        if allowed:
            return lambda _: problem(405, f"{request.path} takes {', '.join(allowed)}")._replace(
                headers={"Allow": ", ".join(allowed)}
            )
        return self._desk.fallback or (lambda _: problem(404, "there is nothing here"))

    def _broken(self, request: Request) -> Reply:
        log.exception("request failed", extra={"method": request.method, "path": request.path[:200]})
        return problem(500, "an error of ours; it is in the log")

    def _send(self, request: Request, reply: Reply, keep_alive: bool) -> None:
        self._out.append(reply.encoded(keep_alive=keep_alive, with_body=request.method != "HEAD"))
        if not keep_alive:
            self._line.clear()
            self._last = None
            self._hang_up()

    def _too_much(self, status: int, detail: str) -> None:
        """Called from within the parser, which cannot be left by an exception of ours without losing its place."""
        if not self._closing:
            self._refuse(status, detail)

    def _refuse(self, status: int, detail: str) -> None:
        refusal = problem(status, detail).encoded(keep_alive=False)
        if self._working:
            self._last = refusal
        else:
            self._out.append(refusal)
        self._hang_up()

    def _hang_up(self) -> None:
        """Close once everything is written; what still comes in is not looked at."""
        self._closing = True

    def _flush(self) -> None:
        if self._transport is None:
            self._out.clear()
            return
        if self._out:
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
            self._out.clear()
        if self._closing and not self._working:
            self._close()

    def _close(self) -> None:
        """With bytes unread, a plain close would reset the connection and take the answer with it."""
        assert self._transport is not None
        if self._receiving and self._transport.can_write_eof():
            self._transport.write_eof()  # what still comes is thrown away, until they hang up or are overdue
            self._since_s = self._desk.clock()
        else:
            self._transport.close()

    # -- limits -------------------------------------------------------------------------------------------------------

    def overdue(self, now_s: float) -> bool:
        """Has the other side had its time? A handler at work is ours to wait for, not theirs."""
        waited_s = now_s - self._since_s
        if self._clogged or self._receiving:
            return waited_s > self._limits.request_s
        return not self._working and waited_s > self._limits.idle_s

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_when_idle(self) -> None:
        """Take no more requests; what was asked is answered."""
        self._closing = True
        if self._transport is not None and not self._working:
            self._transport.close()  # in the middle of a request, too: who is still sending sends it again elsewhere

    def _too_long(self) -> None:
        self._too_much(431, f"target and headers may have {self._limits.head_bytes} bytes at most")

    def _read_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._clogged or len(self._line) >= self._limits.waiting:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
