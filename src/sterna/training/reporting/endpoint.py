"""One HTTP server that is posted to, over one connection that is kept. Nothing else of HTTP is needed here."""

import contextlib
import http.client
import ssl
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

_ANSWER_MAX = 65_536


class Away(Exception):
    """The server did not answer, or said that it cannot now: the same may be tried again later."""


class Reply(NamedTuple):
    status: int
    body: bytes


class Endpoint:
    """Used by one thread. Raises ValueError for an address that cannot be one."""

    def __init__(
        self,
        url: str,
        *,
        token: Callable[[], str | None],  # asked each time, since tokens are replaced while a program runs
        authorities: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        timeout_s: float = 2.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address; expected one like http://10.0.0.1:8081")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path + (f"?{parts.query}" if parts.query else "")
        self._token = token
        self._authorities = authorities
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes) -> Reply:
        """The answer: taken, or refused for good. Raises Away."""
        headers = {"Content-Type": "application/json"}
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        kept = self._connection is not None  # a server may drop one that was idle: then once more over a new one
        try:
            reply = self._exchange(body, headers, again=kept)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.close()
            raise Away(str(error) or type(error).__name__) from error
        if reply.status >= 500 or reply.status in (408, 425, 429):
            raise Away(f"status {reply.status}")
        return reply

    def close(self) -> None:
        """Drop the connection; the next post opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def _exchange(self, body: bytes, headers: dict[str, str], *, again: bool) -> Reply:
        if self._connection is None:
            self._connection = self._connected()
        try:
            self._connection.request("POST", self._path or "/", body, headers)
            answer = self._connection.getresponse()
            said = answer.read(_ANSWER_MAX)
        except (ConnectionError, http.client.HTTPException):
            self.close()
            if not again:
                raise
            return self._exchange(body, headers, again=False)
        if not answer.isclosed():  # longer than any expected answer
            self.close()
        return Reply(answer.status, said)

    def _connected(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        context = self._authorities()
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=context)
