"""The accept loop: takes connections for a server library, within limits, and closes those that wait too long.

When all places are taken, a new connection takes the place of the one that has waited longest without a request, of
the address that holds most. It is refused only where every place has a request at work.
"""

import asyncio
import contextlib
import errno
import logging
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator

from sterna.connections.connection_limits import Limits
from sterna.connections.guest import Guest, Peer
from sterna.connections.seldom import Seldom

log = logging.getLogger(__name__)
log.addFilter(Seldom())

BACKLOG = 1024

_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AGAIN_S = 0.5  # after an accept that failed for lack of something
_SWEEP_S_MAX = 1.0
_READ_BYTES = 1 << 15


class Admission:
    """`make`: a protocol for each connection. `refusal`: what a new connection is sent if there is no place for it."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        limits: Limits,
        *,
        refusal: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._limits = limits.within_files()
        self._refusal = refusal
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._clock = clock
        self._guests: dict[Peer, Guest] = {}
        self._by_address: dict[str, set[Guest]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[socket.socket] = []

    def __len__(self) -> int:
        return len(self._guests)

    @property
    def guests(self) -> tuple[Guest, ...]:
        return tuple(self._guests.values())

    def knows(self, peer: Peer) -> bool:
        return peer in self._guests

    def open(self, listeners: Iterable[socket.socket]) -> None:
        """Listen on sockets that are bound; from now on they are ours to close."""
        self._listeners = list(listeners)
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            self._tasks.append(asyncio.create_task(self._accept_all(listener), name="accept"))
        self._tasks.append(asyncio.create_task(self._sweep(), name="sweep"))

    async def close(self) -> None:
        """Take no more. Open connections stay, and their deadlines are no longer checked."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for listener in self._listeners:
            listener.close()

    def send_all_away(self) -> None:
        for guest in self.guests:
            guest.send_away()

    @contextlib.contextmanager
    def at_work(self, peer: Peer | None) -> Iterator[None]:
        """For as long as a request of this connection is answered: its head is complete."""
        guest = None if peer is None else self._guests.get(peer)
        if guest is None:  # it has gone meanwhile
            yield
            return
        guest.began()
        try:
            yield
        finally:
            guest.ended()

    # -- coming -------------------------------------------------------------------------------------------------------

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, peer = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _SCARCE:
                    if _is_waited_at(listener):
                        log.warning("no file is left for a connection", extra={"why": error.strerror})
                        self._make_room(self._crowds())
                    await asyncio.sleep(_AGAIN_S)
                continue  # anything else is that connection's own end
            await self._take(line, (str(peer[0]), int(peer[1])))

    async def _take(self, line: socket.socket, peer: Peer) -> None:
        line.setblocking(False)
        guest = Guest(self._make(), peer, self._limits, self._buffer, clock=self._clock, gone=self._forget)
        if not self._is_room_for(guest.address):
            log.warning(
                "connection refused", extra={"address": guest.address, "why": "every place has a request at work"}
            )
            with contextlib.suppress(OSError), line:
                line.send(self._refusal)
            await asyncio.sleep(0)
            return
        self._guests[peer] = guest
        self._by_address.setdefault(guest.address, set()).add(guest)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: guest, line)
        except OSError:  # it has gone again
            line.close()
            self._forget(guest)

    def _is_room_for(self, address: str) -> bool:
        same = self._by_address.get(address, set())
        if len(same) >= self._limits.per_address:
            return self._make_room([same])
        return len(self._guests) < self._limits.connections or self._make_room(self._crowds())

    def _crowds(self) -> list[set[Guest]]:
        return sorted(self._by_address.values(), key=len, reverse=True)

    def _make_room(self, crowds: Iterable[set[Guest]]) -> bool:
        """Close the connection that waits longest, in the first crowd that has one waiting."""
        for crowd in crowds:
            waiting = [guest for guest in crowd if not guest.busy]
            if waiting:
                min(waiting, key=lambda guest: (guest.waits_since_s, guest.peer)).send_away()
                return True
        return False

    # -- going --------------------------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        limits = self._limits
        every_s = min(_SWEEP_S_MAX, limits.head_s / 4, limits.idle_s / 4, limits.answer_s / 4)
        loop = asyncio.get_running_loop()
        while True:
            asleep_s = loop.time()
            await asyncio.sleep(every_s)
            late_s = loop.time() - asleep_s - every_s
            if late_s > every_s:  # something held up the whole loop, and what came meanwhile is not read yet
                for guest in self.guests:
                    guest.excuse(late_s)
            now_s = self._clock()
            for guest in self.guests:
                if guest.overdue(now_s):
                    guest.send_away()

    def _forget(self, guest: Guest) -> None:
        if self._guests.get(guest.peer) is guest:
            del self._guests[guest.peer]
        same = self._by_address.get(guest.address)
        if same is not None:
            same.discard(guest)
            if not same:
                del self._by_address[guest.address]


def _is_waited_at(listener: socket.socket) -> bool:
    """Is there a connection to accept? Linux takes a file descriptor first, and fails even if there is none."""
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    return bool(ready.poll(0))


async def bound(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the host has, all on one port; 0: any that is free. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((family, address[0]) for family, _, _, _, address in found):
            line = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(line)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                line.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            line.bind((address, port))
            port = line.getsockname()[1]
    except OSError:
        for line in sockets:
            line.close()
        raise
    return sockets
