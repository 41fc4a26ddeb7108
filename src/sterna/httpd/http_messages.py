"""Requests and replies. Values only."""

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
    headers: Mapping[bytes, bytes]  # names in lower case; what may come once only came once
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


Handler = Callable[[Request], Reply | Awaitable[Reply]]


def json_reply(value: object, *, status: int = 200) -> Reply:
    return Reply(json.dumps(value, separators=(",", ":")).encode(), status, JSON)


def problem(status: int, detail: str, **more: object) -> Reply:
    """An error that programs can read: status, title, detail and whatever helps further."""
    body = {"status": status, "title": _PHRASES.get(status, ""), "detail": detail, **more}
    return Reply(json.dumps(body, separators=(",", ":")).encode(), status, PROBLEM)


_PHRASES = {status.value: status.phrase for status in HTTPStatus}
