"""Reserved ports: bound here, without listening, for as long as their owner may need them.

A bound socket keeps the kernel from giving its port to a process that asks for "some port" (bind to 0, or a
connection's own end), and to one that names it and sets neither SO_REUSEADDR nor SO_REUSEPORT. The worker sets one of
them, as servers do, and the kernel lets it bind and listen beside ours, because ours does not listen. Tried
with torch's TCPStore (libuv and not), TensorFlow's gRPC server, http.server, asyncio and plain sockets: the tests do.

Ours is bound to every address, of both families, since TCPStore and gRPC bind to every address as well, and a port
that another process holds on another interface would be useless to them.
"""

import os
import socket

from sterna.engines.local.launch.warden.wire import Refused

PORTS_MAX = 4096  # for one owner; each is a descriptor


class Ports:
    """The ports held by this warden, by their owner."""

    def __init__(self) -> None:
        self._held: dict[str, dict[int, socket.socket]] = {}  # by owner, by port, in the order they were given
        self._family = _family()

    def held(self) -> dict[str, tuple[int, ...]]:
        return {owner: tuple(self._held[owner]) for owner in sorted(self._held)}

    def hold(self, owner: str, count: int) -> tuple[int, ...]:
        """The first `count` ports of this owner: those it has, then more."""
        have = self._held.setdefault(owner, {})
        try:
            while len(have) < count:
                holder = self._bound()
                have[holder.getsockname()[1]] = holder
        except OSError as error:  # those it got so far stay held: a repeat goes on from there
            raise Refused("unavailable", f"no {count} ports for {owner}: {os.strerror(error.errno or 0)}") from error
        return tuple(have)[:count]

    def release(self, owner: str) -> None:
        """Give up all ports of this owner, if it has any."""
        for holder in self._held.pop(owner, {}).values():
            holder.close()

    def _bound(self) -> socket.socket:
        holder = socket.socket(self._family, socket.SOCK_STREAM)
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if self._family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            holder.bind(("", 0))  # never a port by name: with these options two wardens could hold the same one
        except OSError:
            holder.close()
            raise
        return holder


def _family() -> socket.AddressFamily:
    """Of both, where the machine speaks the newer one: a machine may have been told not to."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as trial:
            trial.bind(("", 0))
    except OSError:
        return socket.AF_INET
    return socket.AF_INET6
