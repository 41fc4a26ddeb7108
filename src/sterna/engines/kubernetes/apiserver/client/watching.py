"""A watch, from bytes to events: lines of any length, partial shapes, and the server's error at its end."""

from collections.abc import AsyncIterator
from typing import Generic

import aiohttp
import msgspec

from sterna.engines.kubernetes.apiserver.client.response_errors import Asking, error_of, status_of
from sterna.engines.kubernetes.apiserver.objects import KubeObject, Shape
from sterna.engines.kubernetes.apiserver.port import EventType, T, Unreachable, WatchEvent

_TRY_AGAIN_S = 1.0


class _Line(Shape, Generic[T], frozen=True):
    type: EventType
    object: T


class _AnyLine(Shape, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


_ANY = msgspec.json.Decoder(_AnyLine)
_RARE = (b'{"type":"BOOKMARK"', b'{"type":"ERROR"')


class EventReader(Generic[T]):
    """Decodes straight into the shape, which is what a busy watch needs; the rare kinds take the long way."""

    def __init__(self, shape: type[T]) -> None:
        self._shape = shape
        self._line: msgspec.json.Decoder[_Line[T]] = msgspec.json.Decoder(_Line[shape])  # type: ignore[valid-type]

    def event(self, line: bytes, asking: Asking) -> WatchEvent[T]:
        """The error of the port that an ERROR event stands for is raised."""
        if not line.startswith(_RARE):
            try:
                read = self._line.decode(line)
            except msgspec.ValidationError:
                pass
            except msgspec.DecodeError as error:
                raise _unreadable(asking, error) from None
            else:
                return WatchEvent(read.type, read.object)
        return self._rare(line, asking)

    def _rare(self, line: bytes, asking: Asking) -> WatchEvent[T]:
        try:
            read = _ANY.decode(line)
            if read.type == "ERROR":
                status = status_of(bytes(read.object))
                raise error_of(asking, status.code or 500, status)
            if read.type == EventType.BOOKMARK:  # its other fields are empty in ways that the shape need not allow
                bookmark = msgspec.json.decode(read.object, type=KubeObject)
                return WatchEvent(EventType.BOOKMARK, self._shape(metadata=bookmark.metadata))
            return WatchEvent(EventType(read.type), msgspec.json.decode(read.object, type=self._shape))
        except (msgspec.DecodeError, ValueError) as error:
            raise _unreadable(asking, error) from None


async def lines(content: aiohttp.StreamReader, asking: Asking, *, bytes_max: int) -> AsyncIterator[bytes]:
    """Lines without their end. One that the end of the stream cuts short is `Unreachable`."""
    begun: list[bytes] = []
    size = 0
    async for piece in content.iter_any():
        first, *more = piece.split(b"\n")
        begun.append(first)
        size += len(first)
        if more:
            *whole, rest = more
            if size:
                yield b"".join(begun)
            for line in whole:
                if line:
                    yield line
            begun, size = [rest], len(rest)
        if size > bytes_max:
            raise Unreachable(f"{asking}: an event of more than {bytes_max} bytes", retry_after_s=_TRY_AGAIN_S)
    if size:
        raise Unreachable(f"{asking}: the stream ended within an event", retry_after_s=_TRY_AGAIN_S)


def _unreadable(asking: Asking, error: Exception) -> Unreachable:
    return Unreachable(f"{asking}: an event that cannot be read: {error}", retry_after_s=_TRY_AGAIN_S)
