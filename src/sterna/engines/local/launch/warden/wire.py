"""Lines of JSON over a unix stream socket: framing, the form of requests and answers, and refusals.

Request   {"n": 7, "do": "start", ...}            answered by {"n": 7, "ok": ...} or {"n": 7, "refused": {...}}
Unasked   {"hello": {...}} first, then {"ended": <process state>} for each process that ended.

Both sides import this module, so it knows neither asyncio nor the loop of the warden.
"""

import json
from typing import Any

VERSION = 1  # of this protocol: a warden outlives upgrades of the engine
LINE_BYTES_MAX = 2 * 2**20  # what a warden reads; more than execve takes
ANSWER_BYTES_MAX = 64 * 2**20  # what a client reads: a census may be long
SOCKET_NAME = "warden.sock"
DIRECTORY_NAME = "warden"  # in the home: journal, log and lock


class Refused(Exception):
    """A request the warden will not carry out. `kind` is one of invalid, unknown, conflict, unavailable."""

    def __init__(self, kind: str, message: str, *, field: str = "", value: object = None) -> None:
        self.kind = kind
        self.field = field
        self.value = value
        super().__init__(message)

    def to_wire(self) -> dict[str, Any]:
        short = isinstance(self.value, int | float | None) or (isinstance(self.value, str) and len(self.value) <= 200)
        value = self.value if short else repr(self.value)[:200]
        return {"kind": self.kind, "message": str(self), "field": self.field, "value": value}


class LineTooLong(Exception):
    pass


class Lines:
    """Bytes in, complete lines out; what is left of an unfinished line is bounded."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now. Raises LineTooLong."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        first, *others = chunk.split(b"\n")
        self._keep(first)
        lines = [bytes(self._rest), *others[:-1]]
        self._rest.clear()
        self._keep(others[-1])
        return lines

    def _keep(self, part: bytes) -> None:
        if len(self._rest) + len(part) > self._bytes_max:
            raise LineTooLong
        self._rest += part


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """One message, or `Refused`: whatever bytes arrive, nothing else is raised."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused("invalid", f"not a line of JSON: {error}") from error
    if not isinstance(message, dict):
        raise Refused("invalid", "a message is a JSON object")
    return message
