"""The API server as a test asks it: raw paths and plain dictionaries, and nothing of the code under test."""

import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from tests import waiting

Body = dict[str, Any]
T = TypeVar("T")

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"  # with ?fieldManager=... in the path; JSON is YAML
PATIENCE_S = 120.0


class Access(NamedTuple):
    """A door, and who comes through it."""

    server: str
    token: str
    ca_file: str | None = None  # None: plain HTTP

    def tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca_file) if self.server.startswith("https") else None


class ApiError(Exception):
    """The API server said no, in its own words."""

    def __init__(self, status: int, body: bytes) -> None:
        try:
            said = json.loads(body)
        except ValueError:
            said = {"message": body.decode(errors="replace")}
        self.status = status
        self.reason = str(said.get("reason", ""))
        self.message = str(said.get("message", ""))
        super().__init__(f"{status} {self.reason}: {self.message}")


class Api:
    """One server, as one user. A connection for each request: slow enough for tests, and safe from any thread."""

    def __init__(self, access: Access) -> None:
        self._address = urlsplit(access.server)
        self._token = access.token
        self._tls = access.tls()

    def get(self, path: str) -> Body:
        return self._json("GET", path)

    def items(self, path: str) -> list[Body]:
        return list(self.get(path)["items"])

    def text(self, path: str) -> str:
        return self._ask("GET", path).decode(errors="replace")

    def create(self, path: str, body: Body) -> Body:
        return self._json("POST", path, body)

    def replace(self, path: str, body: Body) -> Body:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: Body | list[Any], type: str = MERGE) -> Body:  # noqa: A002
        return self._json("PATCH", path, body, type)

    def delete(self, path: str, body: Body | None = None) -> Body:
        return self._json("DELETE", path, body)

    def _json(self, method: str, path: str, body: Body | list[Any] | None = None, type: str = "") -> Body:  # noqa: A002
        answer: Body = json.loads(self._ask(method, path, body, type))
        return answer

    def _ask(self, method: str, path: str, body: Body | list[Any] | None = None, type: str = "") -> bytes:  # noqa: A002
        host, port = self._address.hostname or "", self._address.port
        connection = (
            http.client.HTTPSConnection(host, port, context=self._tls, timeout=60)
            if self._tls
            else http.client.HTTPConnection(host, port, timeout=60)
        )
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": type or "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiError(response.status, answer)
        return answer


def until(
    holds: Callable[[], T],
    what: str,
    *,
    patience_s: float = PATIENCE_S,
    story: Callable[[], object] = lambda: "",
    every_s: float = 0.1,
) -> T:
    """The first answer of `holds` that is true. An API error counts as not yet; `story` is what a failure shows."""
    trouble: list[Exception] = []

    def asked() -> T | None:
        trouble.clear()
        try:
            return holds()
        except (ApiError, OSError, http.client.HTTPException) as error:
            trouble.append(error)
            return None

    answer = waiting.until(
        asked, what, patience_s=patience_s, every_s=every_s, story=lambda: f"{[*trouble]}\n{story()}"
    )
    assert answer is not None
    return answer
