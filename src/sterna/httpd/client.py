"""One request to a server, over a connection of its own, with one deadline for everything and a limit on the answer."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

_READ_BYTES = 64 * 1024


class CallFailed(Exception):
    """No answer: nobody is there, it took too long, or it was not HTTP. Worth another try."""


class Answered(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[bytes, bytes]


async def call(
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] = {},
    deadline_s: float = 10.0,
    body_bytes_max: int = 1 << 20,
    tls: ssl.SSLContext | None = None,
) -> Answered:
    """Raises CallFailed; whatever the status, it is an answer. `tls` None: the system's authorities, for https."""
    try:
        async with asyncio.timeout(deadline_s):
            return await _call(method, url, body, headers, body_bytes_max, tls)
    except (OSError, TimeoutError, httptools.HttpParserError, ValueError) as error:
        raise CallFailed(f"{method} {url}: {error or type(error).__name__}") from error


async def _call(
    method: str, url: str, body: bytes, headers: Mapping[str, str], body_bytes_max: int, tls: ssl.SSLContext | None
) -> Answered:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected a URL that begins with http:// or https://")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", "Connection: close"]
    lines += [f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
    if any(sign in line for line in lines for sign in "\r\n"):
        raise ValueError("a header with a line break")
    port = parts.port or (443 if secure else 80)
    context = (tls or ssl.create_default_context()) if secure else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        return await _answer(reader, body_bytes_max)
    finally:
        writer.transport.abort()  # the answer is complete or not wanted: there is nothing to wait for


async def _answer(reader: asyncio.StreamReader, body_bytes_max: int) -> Answered:
    coming = _Coming(body_bytes_max)
    parser = httptools.HttpResponseParser(coming)
    while not coming.complete:
        data = await reader.read(_READ_BYTES)
        if not data:
            if coming.until_closed and parser.get_status_code():
                break
            raise ConnectionResetError("the connection was closed in the middle of an answer")
        parser.feed_data(data)
    return Answered(parser.get_status_code(), b"".join(coming.body), coming.headers)


class _Coming:
    """What has come of an answer so far."""

    def __init__(self, body_bytes_max: int) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body: list[bytes] = []
        self.complete = False
        self.until_closed = False
        self._left = body_bytes_max

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.until_closed = not {b"content-length", b"transfer-encoding"} & self.headers.keys()

    def on_body(self, body: bytes) -> None:
        self._left -= len(body)
        if self._left < 0:
            raise ValueError("the answer is too long")
        self.body.append(body)

    def on_message_complete(self) -> None:
        self.complete = True
