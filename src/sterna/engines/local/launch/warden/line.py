"""One connection of the engine to its warden: numbered questions out, answers and pushed ends in."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from sterna.engines.local.launch.warden import wire
from sterna.engines.local.launch.warden.values import ProcessState, state_from_wire
from sterna.model.errors import EngineUnavailable


class Broken(Exception):
    """The connection ended before the answer came."""


class Line(asyncio.Protocol):
    """`on_end` is called for each pushed end, `on_lost` once when the connection to a warden of our release ends."""

    def __init__(self, on_end: Callable[[ProcessState], None], on_lost: Callable[[], None]) -> None:
        self.broken = False
        self._met = False  # it is a warden, of our release
        self.hello: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._on_end = on_end
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._lines = wire.Lines(wire.ANSWER_BYTES_MAX)
        self._transport: asyncio.Transport | None = None

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request. Raises Broken, or the warden's `Refused`."""
        if self.broken or self._transport is None:
            raise Broken
        number = next(self._numbers)
        line = wire.encode({"n": number, **request})
        if len(line) > wire.LINE_BYTES_MAX:  # it would close the connection that others use, too, and not say why
            expected = f"at most {wire.LINE_BYTES_MAX} bytes on their way to the warden; these are {len(line)}"
            raise wire.Refused("invalid", expected, field=max(request, key=lambda name: len(str(request[name]))))
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(line)
            result: dict[str, Any] = await answer
            return result
        finally:
            del self._waiting[number]

    def drop(self) -> None:
        """Close the connection; requests that wait raise Broken."""
        self.broken = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.broken = True
        for future in (self.hello, *self._waiting.values()):
            if not future.done():
                future.set_exception(Broken())
        if self._met:
            self._on_lost()

    def data_received(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._received(wire.decode(line))
        except (wire.Refused, wire.LineTooLong):
            self.drop()  # not a warden

    def _received(self, message: dict[str, Any]) -> None:
        if "ended" in message:
            self._on_end(state_from_wire(message["ended"]))
        elif "hello" in message:
            self._greeted(message["hello"])
        else:
            answer = self._waiting.get(message.get("n", 0))
            if answer is None or answer.done():
                return  # its asker ran out of time
            if "refused" in message:
                answer.set_exception(_refusal(message["refused"]))
            else:
                answer.set_result(message["ok"])

    def _greeted(self, hello: dict[str, Any]) -> None:
        if self.hello.done():
            return
        if hello["version"] == wire.VERSION:
            self._met = True
            self.hello.set_result(hello)
            return
        message = (
            f"a warden of another release runs here (pid {hello['pid']}, protocol {hello['version']}); "
            "let its jobs end, or send it SIGTERM, which ends them"
        )
        self.hello.set_exception(EngineUnavailable(message, retry_after_s=60.0))


def _refusal(told: dict[str, Any]) -> wire.Refused:
    return wire.Refused(told["kind"], told["message"], field=told["field"], value=told["value"])
