"""What can go wrong between a client and an API server, as values, and what becomes of an answer that meets it."""

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

REASONS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True)
class Answer:
    """An error instead of the answer; with `forwarded` what was asked for has been done all the same."""

    status: int
    retry_after_s: int | None = None
    reason: str = ""  # empty: the usual one of the status
    forwarded: bool = False

    def body(self) -> bytes:
        reason = self.reason or REASONS.get(self.status, "")
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": self.status}
        return json.dumps({**said, "reason": reason, "message": "so the test wants it"}).encode()

    def headers(self) -> dict[str, str]:
        waiting = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return {"Content-Type": "application/json", **waiting}


@dataclass(frozen=True)
class Drop:
    """The connection is cut and nothing answered; with `forwarded` what was asked for has been done."""

    forwarded: bool = False


@dataclass(frozen=True)
class Delay:
    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection is cut in the answer: after so many events of a watch, or after so many bytes of anything."""

    events: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Repeat:
    """Every event of a watch comes twice."""


@dataclass(frozen=True)
class Swap:
    """Every two events of a watch change places, as long as the second comes."""


Fault = Answer | Drop | Delay | Cut | Repeat | Swap


async def bent(pieces: AsyncIterator[bytes], fault: Cut | Repeat | Swap | None) -> AsyncIterator[bytes]:
    """The answer as the fault lets it through; the pieces of a watch are its events."""
    held: bytes | None = None
    events = sent = 0
    async for piece in pieces:
        match fault:
            case None:
                yield piece
            case Repeat():
                yield piece
                yield piece
            case Swap():
                if held is None:
                    held = piece
                else:
                    yield piece
                    yield held
                    held = None
            case Cut(events=limit) if limit is not None:
                if events == limit:
                    return
                yield piece
                events += 1
            case Cut(bytes=limit):
                yield piece[: (limit or 0) - sent]
                sent += len(piece)
                if sent >= (limit or 0):
                    return
    if held is not None:
        yield held


def random_fault(chance: random.Random, *, watch: bool, write: bool) -> Fault:
    """Any of those that such a request may meet."""
    forwarded = chance.random() < 0.5
    faults: list[Fault] = [Answer(429, retry_after_s=chance.randrange(2)), Delay(chance.uniform(0, 1))]
    faults += [Answer(status, forwarded=forwarded and not watch) for status in (500, 503, 504)]
    faults += [Drop(forwarded=forwarded and not watch)]
    if watch:
        faults += [Cut(events=chance.randrange(4)), Cut(bytes=chance.randrange(20_000)), Repeat(), Answer(410)]
    if write:
        faults += [Answer(409)]
    return chance.choice(faults)
