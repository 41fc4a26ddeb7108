"""Clients of the warden: their requests in, answers and pushed ends out.

No client can harm the warden: lines, buffers and the number of clients are bounded, every field is checked, and a
request that fails is refused. Only the user the warden runs as can connect at all, and root.
"""

import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from sterna.engines.local.launch.warden import wire
from sterna.engines.local.launch.warden.event_loop import Loop
from sterna.engines.local.launch.warden.process_table import Processes
from sterna.engines.local.launch.warden.requests import Fields, hook_in, launch_in, port_count_in
from sterna.engines.local.launch.warden.values import to_wire

CLIENTS_MAX = 64
READ_BYTES = 256 * 1024
BACKLOG_BYTES_MAX = 8 * 2**20  # what a client that does not read may leave unread before it is dropped

Reply = Callable[[Any], None]


class Sessions:
    """All connections; the one that was silent longest gives way when there are too many."""

    def __init__(
        self, listener: socket.socket, processes: Processes, *, leave: Callable[[Fields, Reply], None]
    ) -> None:
        self._loop = processes.children.loop
        self._listener = listener
        self._processes = processes
        self._leave = leave
        self._open: dict[int, Session] = {}  # by descriptor, the one heard longest ago first
        processes.on_end = self._push
        self._listen()

    @property
    def is_empty(self) -> bool:
        return not self._open

    def close(self) -> None:
        for session in list(self._open.values()):
            session.close()
        self._listener.close()

    def carry_out(self, request: Fields, reply: Reply) -> None:
        """One request. `reply` is called now or later, unless this raises."""
        processes = self._processes
        match request.text("do"):
            case "start":
                processes.start(launch_in(request.within("launch")), lambda state: reply(to_wire(state)))
            case "stop":
                pre_stop = hook_in(request.within("pre_stop")) if request.has("pre_stop") else None
                whole_group = request.flag("whole_group")
                reply(
                    to_wire(processes.stop(request.id(), request.seconds("grace_s"), pre_stop, whole_group=whole_group))
                )
            case "hook":
                processes.run_hook(request.id(), hook_in(request.within("hook")), lambda ended: reply(to_wire(ended)))
            case "list":
                reply(to_wire(processes.census()))
            case "forget":
                processes.forget(request.ids())
                reply({})
            case "ports":
                reply({"ports": processes.ports.hold(request.id(), port_count_in(request))})
            case "release":
                for owner in request.ids():
                    processes.ports.release(owner)
                reply({})
            case "limits":
                reply(to_wire(processes.cgroups.limits()))
            case "leave":
                self._leave(request, reply)
            case unknown:
                raise wire.Refused("invalid", "a request this warden knows", field="do", value=unknown)

    def heard(self, session: "Session") -> None:
        self._open[session.fd] = self._open.pop(session.fd)

    def closed(self, session: "Session") -> None:
        self._open.pop(session.fd, None)

    def _listen(self) -> None:
        self._loop.readable(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went away again, or we are out of descriptors, which does not pass by looking at once
            self._loop.drop(self._listener.fileno())
            self._loop.after(0.1, self._listen)
            return
        if not _is_trusted(connection):
            connection.close()
            return
        if len(self._open) >= CLIENTS_MAX:
            next(iter(self._open.values())).close()
        session = Session(self._loop, connection, self)
        self._open[session.fd] = session
        session.send({"hello": {"warden": self._processes.name, "pid": os.getpid(), "version": wire.VERSION}})

    def _push(self, state: Any) -> None:
        for session in list(self._open.values()):
            session.send({"ended": to_wire(state)})


class Session:
    """One connection."""

    def __init__(self, loop: Loop, connection: socket.socket, sessions: Sessions) -> None:
        connection.setblocking(False)
        self.fd = connection.fileno()
        self._loop = loop
        self._connection = connection
        self._sessions = sessions
        self._lines = wire.Lines(wire.LINE_BYTES_MAX)
        self._unsent = bytearray()
        self._closed = False
        loop.readable(self.fd, self._ready)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. A client that does not read is dropped."""
        if self._closed:
            return  # its answer came too late
        self._unsent += wire.encode(message)
        if len(self._unsent) > BACKLOG_BYTES_MAX:
            self.close()
        else:
            self._flush()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._sessions.closed(self)
            self._loop.drop(self.fd)
            self._connection.close()

    def _ready(self) -> None:
        if self._unsent:
            self._flush()
        if self._closed:
            return
        try:
            chunk = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        self._sessions.heard(self)
        try:
            lines = self._lines.feed(chunk)
        except wire.LineTooLong:
            self.send({"n": None, "refused": wire.Refused("invalid", "line too long").to_wire()})
            self.close()
            return
        for line in lines:
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        number = None
        try:
            message = wire.decode(line)
            number = message.get("n")
            self._sessions.carry_out(Fields(message), lambda value: self.send({"n": number, "ok": value}))
        except wire.Refused as refusal:
            self.send({"n": number, "refused": refusal.to_wire()})
        except Exception as error:  # the boundary of a request: our bug, and it stays with this request
            sys.excepthook(*sys.exc_info())
            self.send({"n": number, "refused": wire.Refused("unavailable", f"internal: {error!r}").to_wire()})

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._loop.both(self.fd, self._ready, writable=bool(self._unsent))


def _is_trusted(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", credentials)[1]
    return uid in (os.geteuid(), 0)
