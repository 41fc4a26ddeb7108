"""What an answer that is not a success means: the API server's `Status` as one of the errors of the port.

The class says what to do next, so the mapping is by the code and the server's closed reasons, never by its prose.
"""

from typing import NamedTuple

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Shape
from sterna.engines.kubernetes.apiserver.port import (
    AlreadyExists,
    Gone,
    LacksRight,
    Missing,
    Refused,
    Throttled,
    Unreachable,
    WriteConflict,
)
from sterna.model.errors import SternaError

RETRY_S = 1.0  # where the server does not say
_MESSAGE_MAX = 2000  # a proxy may answer with a whole page


class Details(Shape, frozen=True):
    name: str | None = None
    kind: str | None = None
    retry_after_seconds: int | None = None


class Status(Shape, frozen=True):
    """`Status` of the API server, with which it also ends a watch."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: Details | None = None


class Asking(NamedTuple):
    """What was asked, as messages show it."""

    verb: str  # get, list, watch, create, update, patch, delete: as roles name them
    kind: str  # "Pod", "pods/eviction", "/version"
    name: str = ""  # empty: not one object
    namespace: str = ""

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {self.kind} {place}".rstrip()


_STATUS = msgspec.json.Decoder(Status)


def status_of(body: bytes) -> Status:
    """A body that is no `Status` (a proxy's page, say) is the message itself."""
    try:
        return _STATUS.decode(body)
    except msgspec.DecodeError:
        return Status(message=body.decode("utf-8", "replace").strip())


def error_of(asking: Asking, code: int, status: Status, *, retry_after: str | None = None) -> SternaError:
    """The error that says what to do next. `retry_after`: the header of that name."""
    reason = status.reason or ""
    message = f"{asking}: {(status.message or reason or f'HTTP {code}')[:_MESSAGE_MAX]}"
    match code:
        case 404:
            return Missing(asking.kind, asking.name or asking.namespace, hint=_shortened(status.message))
        case 409 if reason == "AlreadyExists":
            return AlreadyExists(message)
        case 409:
            return WriteConflict(message)
        case 410:
            return Gone(message)
        case 429:
            return Throttled(message, retry_after_s=_pause_s(status, retry_after))
        case 408 | 425:
            return Unreachable(f"{message} (HTTP {code})", retry_after_s=_pause_s(status, retry_after))
        case _ if code >= 500:
            return Unreachable(f"{message} (HTTP {code})", retry_after_s=_pause_s(status, retry_after))
        case 401:
            hint = "the API server does not know this user; check the token or certificate of the kubeconfig"
            return LacksRight(f"{message}; {hint}", code=code, reason=reason)
        case 403 if _is_authorizers(asking, status):
            return LacksRight(message, code=code, reason=reason)
        case _:
            return Refused(message, code=code, reason=reason, said=_shortened(status.message))


def _is_authorizers(asking: Asking, status: Status) -> bool:
    """Who may do something is asked before the object is looked at: of a create the answer names the kind and no
    object. Admission names the object, or, as a webhook may, neither."""
    details = status.details
    return asking.verb == "create" and details is not None and bool(details.kind) and not details.name


def _pause_s(status: Status, retry_after: str | None) -> float:
    if status.details is not None and status.details.retry_after_seconds:
        return float(status.details.retry_after_seconds)
    if retry_after is not None and retry_after.isdecimal():  # a date would compare two clocks
        return float(retry_after)
    return RETRY_S


def _shortened(message: str | None) -> str:
    return (message or "")[:_MESSAGE_MAX]
