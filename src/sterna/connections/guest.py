"""One connection as its host sees it: its address, whether a request is at work on it, and since when it waits."""

import asyncio
import ipaddress
from collections.abc import Callable

from sterna.connections.connection_limits import Limits

Peer = tuple[str, int]


class Guest(asyncio.BufferedProtocol):
    """Passes everything on to `inner`, the server library's protocol, and notes when bytes come.

    `buffer` is shared with all others: what is read at once, and so how long one connection holds up the rest.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        peer: Peer,
        limits: Limits,
        buffer: memoryview,
        *,
        clock: Callable[[], float],
        gone: "Callable[[Guest], None]",
    ) -> None:
        self._inner = inner
        self._limits = limits
        self._buffer = buffer
        self._clock = clock
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._clogged_s: float | None = None  # since when the other side takes nothing. None: it does
        self._head_s: float | None = clock()  # since when a head is waited for. None: it may be idle
        self._idle_s = clock()
        self.peer = peer
        self.address = address_of(peer[0])
        self._sent_away = False
        self.busy = 0  # requests whose head is complete and whose answer is not

    @property
    def waits_since_s(self) -> float:
        return self._idle_s if self._head_s is None else self._head_s

    def began(self) -> None:
        self.busy += 1
        self._head_s = None

    def ended(self) -> None:
        self.busy -= 1
        self._head_s, self._idle_s = None, self._clock()

    def overdue(self, now_s: float) -> bool:
        """Has the other side had its time? A request at work has deadlines of its own."""
        if self._clogged_s is not None and now_s - self._clogged_s > self._limits.answer_s:
            return True
        if self.busy:
            return False
        if self._head_s is not None:
            return now_s - self._head_s > self._limits.head_s
        return now_s - self._idle_s > self._limits.idle_s

    def excuse(self, seconds: float) -> None:
        """The connection was not looked at for so long: that time does not count."""
        self._idle_s += seconds
        self._head_s = None if self._head_s is None else self._head_s + seconds
        self._clogged_s = None if self._clogged_s is None else self._clogged_s + seconds

    def send_away(self) -> None:
        """At once: a close in good order would wait for the other side."""
        self._sent_away = True
        if self._transport is not None:
            self._transport.abort()
        self._gone(self)

    # -- asyncio's side -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner.connection_made(transport)
        if self._sent_away:  # before it was even made
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self.busy and self._head_s is None:
            self._head_s = self._clock()  # further bytes do not put it off
        self._inner.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._clogged_s = self._clock()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._clogged_s = None
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone(self)
        self._inner.connection_lost(exc)


def address_of(host: str) -> str:
    """What counts as one address: an IPv4 address, or a network of 64 bits, which is what one machine of IPv6 has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
