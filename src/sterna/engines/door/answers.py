"""What the door says: a status, a body and a few headers. Refusals are RFC 9457 problem details, as everywhere else."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sterna.model.errors import EngineUnavailable, InvalidRequest, NotFound, StaleView, SternaError

PROBLEM = "application/problem+json"

_URN = "urn:sterna:problem:"
_STANDBY_RETRY_S = 2.0
_TITLES = {
    400: "Malformed request",
    401: "Not authorised",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    429: "Too soon",
    500: "Internal error",
    503: "Not available now",
}
_VALUE_MAX = 200  # characters of a value that is sent back


class Answer(NamedTuple):
    status: int
    body: bytes
    media_type: str
    headers: Mapping[str, str] = {}


class Problem(SternaError):
    """A refusal on its way to the asker. `kind` is the end of its `type`; `more` are members beside the usual ones."""

    def __init__(self, status: int, kind: str, detail: str, /, **more: Any) -> None:
        self.status = status
        self.kind = kind
        self.more = more
        super().__init__(detail)

    @property
    def answer(self) -> Answer:
        title = _TITLES.get(self.status, "Request failed")
        record = {"type": _URN + self.kind, "title": title, "status": self.status, "detail": str(self), **self.more}
        headers = {"cache-control": "no-store"}
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="sterna"'
        if self.status == 503:
            headers["connection"] = "close"  # the next try may reach another replica
        if (retry_after_s := self.more.get("retryAfterSeconds")) is not None:
            headers["retry-after"] = str(max(1, round(retry_after_s)))
        return Answer(self.status, json.dumps(record).encode(), PROBLEM, headers)


INTERNAL = Problem(500, "internal", "the scheduler met an error of its own; its log has the details")


def unavailable(why: str, *, retry_after_s: float = _STANDBY_RETRY_S) -> Problem:
    return Problem(503, "unavailable", why, retryAfterSeconds=retry_after_s)


def problem_of(error: SternaError) -> Problem:
    """What the asker is told of an error that the engine raised."""
    match error:
        case Problem():
            return error
        case InvalidRequest():
            more = {"field": error.field, "value": shown(error.value), "expected": error.expected}
            return Problem(400, "invalid-request", str(error), **more)
        case NotFound():
            return Problem(404, "not-found", str(error), kind=error.kind, name=shown(error.name))
        case EngineUnavailable():
            return unavailable(str(error), retry_after_s=error.retry_after_s)
        case StaleView():
            return unavailable(str(error))
        case _:
            return Problem(409, "refused", str(error))


def plain(text: str, **headers: str) -> Answer:
    return Answer(200, text.encode(), "text/plain; charset=utf-8", {"cache-control": "no-store", **headers})


def as_json(value: object) -> Answer:
    return Answer(200, json.dumps(value).encode(), "application/json", {"cache-control": "no-store"})


def shown(value: object) -> str:
    """A value from a request, short enough to be sent back."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 3]}..."
