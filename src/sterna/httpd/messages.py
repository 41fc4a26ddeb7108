"""Requests, replies and the limits of a server. Values only."""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

JSON = "application/json"
PROBLEM = "application/problem+json"  # RFC 9457
TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    method: str
    path: str  # as sent, without the query; nothing is unquoted
    query: str  # "": none
    headers: Mapping[bytes, bytes]  # names in lower case; of a name that comes twice the last one
    body: bytes
    peer: str  # the other side's address

    def header(self, name: str) -> str | None:
        value = self.headers.get(name.lower().encode())
        return None if value is None else value.decode("latin-1")


class Reply(NamedTuple):
    body: bytes = b""
    status: int = 200
    content_type: str = TEXT
    headers: Mapping[str, str] = {}

    def encoded(self, *, keep_alive: bool, with_body: bool = True) -> bytes:
        """The whole answer as it goes over the wire."""
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items()) if self.headers else ""
        head = (
            f"HTTP/1.1 {self.status} {_PHRASES.get(self.status, '')}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n{more}{'' if keep_alive else 'Connection: close' + _END}\r\n"
        )
        return head.encode("latin-1") + self.body if with_body else head.encode("latin-1")


Handler = Callable[[Request], Reply | Awaitable[Reply]]


class Limits(NamedTuple):
    body_bytes: int = 1 << 20  # more: 413
    head_bytes: int = 16 * 1024  # of the target and all headers together; more: 431
    headers: int = 100
    request_s: float = 10.0  # from a request's first byte to its last, and for taking an answer; longer: closed
    idle_s: float = 75.0  # between requests
    connections: int = 1024  # more: 503
    waiting: int = 64  # requests of one connection behind one that is being worked on; more are not read yet


def json_reply(value: object, *, status: int = 200) -> Reply:
    return Reply(json.dumps(value, separators=(",", ":")).encode(), status, JSON)


def problem(status: int, detail: str, **more: object) -> Reply:
    """An error that programs can read: status, title, detail and whatever helps further."""
    body = {"status": status, "title": _PHRASES.get(status, ""), "detail": detail, **more}
    return Reply(json.dumps(body, separators=(",", ":")).encode(), status, PROBLEM)


_END = "\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
