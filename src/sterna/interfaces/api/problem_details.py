"""Errors on their way through HTTP: RFC 9457 problem details, made on one side and turned back on the other.

What a client catches is what the scheduler raised: class, message and fields. Both directions stand here so that they
cannot drift apart; it imports no web framework, because the client pays for every import.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sterna.model.errors import (
    Conflict,
    EngineRefused,
    EngineUnavailable,
    InvalidRequest,
    NotFound,
    StaleView,
    SternaError,
)

MEDIA_TYPE = "application/problem+json"

_URN = "urn:sterna:problem:"
_VALUE_MAX = 200  # characters of a value that is not worth sending back whole
_TITLES = {
    400: "Malformed request",
    401: "Not authorised",
    404: "Not found",
    405: "Method not allowed",
    408: "Request took too long",
    409: "Conflict",
    413: "Request too large",
    421: "Not for this host",
    422: "Invalid request",
    500: "Internal error",
    503: "Not available now",
}


class Problem(NamedTuple):
    """One thing that went wrong with one request."""

    status: int
    kind: str  # the end of its `type`; empty: nothing beyond what the status says
    detail: str
    more: Mapping[str, Any] = {}

    @property
    def record(self) -> dict[str, Any]:
        kind = _URN + self.kind if self.kind else "about:blank"
        title = _TITLES.get(self.status, "Request failed")
        return {"type": kind, "title": title, "status": self.status, "detail": self.detail, **self.more}


INTERNAL = Problem(500, "internal", "the engine met an error of its own; its log has the details")


def problem_of(error: SternaError) -> Problem:
    """What the asker is told. An error that is our own bug says no more than that."""
    match error:
        case InvalidRequest():
            more = {"field": error.field, "value": _plain(error.value), "expected": error.expected}
            return Problem(422, "invalid-request", str(error), more)
        case NotFound():
            return Problem(404, "not-found", str(error), {"kind": error.kind, "name": error.name})
        case Conflict() | StaleView():
            return Problem(409, "conflict", str(error))
        case EngineRefused():
            return Problem(409, "refused", str(error))
        case EngineUnavailable():
            return Problem(503, "unavailable", str(error), {"retryAfterSeconds": error.retry_after_s})
        case _:
            return INTERNAL


def error_of(status: int, record: Any) -> SternaError:
    """The error that a problem stands for; of an answer that is no problem, one that says so."""
    if not isinstance(record, dict):
        return EngineUnavailable(f"the engine answered {status} and nothing that says why", retry_after_s=1.0)
    detail = str(record.get("detail") or record.get("title") or f"the engine answered {status}")
    error = _error(str(record.get("type", "")).removeprefix(_URN), record, detail)
    error.args = (detail,)  # the words are the engine's, whatever the class would have made of its fields
    return error


def _error(kind: str, record: Mapping[str, Any], detail: str) -> SternaError:
    match kind:
        case "invalid-request":
            field, expected = str(record.get("field", "request")), str(record.get("expected", "something else"))
            return InvalidRequest(field=field, value=record.get("value"), expected=expected)
        case "not-found":
            return NotFound(str(record.get("kind", "thing")), str(record.get("name", "")))
        case "conflict":
            return Conflict(detail)
        case "refused":
            return EngineRefused(detail)
        case "unavailable":
            return EngineUnavailable(detail, retry_after_s=_seconds(record.get("retryAfterSeconds")))
        case _:
            return EngineRefused(detail)


def _plain(value: object) -> object:
    """A value that JSON can carry, short enough to be read."""
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 1 << 63 else repr(value)[:_VALUE_MAX]
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 3]}..."


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 3600 else 1.0
