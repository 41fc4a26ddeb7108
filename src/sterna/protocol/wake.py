"""Datagrams that say "look again", in both directions, over unix sockets. They carry no state and may be lost.

Sending never blocks and never raises. A socket's path may be longer than the kernel's 107 bytes (deep state
directories, test directories): it is then reached through an open handle on its directory.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from sterna.protocol.mailbox import WAKE_SOCKET

_SOCKET_PATH_BYTES_MAX = 107
_DATAGRAM_BYTES_MAX = 4096


def wake_worker(mailbox: str | os.PathLike[str]) -> None:
    """Tell a worker to read its orders. If it does not listen, or its queue is full, it looks by itself."""
    _send(Path(mailbox) / WAKE_SOCKET, b"")


def wake_engine(socket_path: str | os.PathLike[str], worker: str) -> None:
    """Tell the engine to read the status of `worker` (its uid)."""
    _send(Path(socket_path), worker.encode()[:_DATAGRAM_BYTES_MAX])


class WakeSocket:
    """Where datagrams arrive. `fileno()` suits select, poll and asyncio's `add_reader`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Listen at `path`; a socket that an earlier process left there is replaced. Raises OSError."""
        self.path = Path(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        try:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            with _short(self.path) as address:
                self._socket.bind(address)
        except OSError:
            self._socket.close()
            raise

    @classmethod
    def of_worker(cls, mailbox: str | os.PathLike[str]) -> Self:
        return cls(Path(mailbox) / WAKE_SOCKET)

    def fileno(self) -> int:
        return self._socket.fileno()

    def received(self) -> tuple[str, ...]:
        """Everything that has arrived, without waiting: uids at the engine, empty texts at a worker."""
        messages: list[str] = []
        while True:
            try:
                messages.append(self._socket.recv(_DATAGRAM_BYTES_MAX).decode(errors="replace"))
            except OSError:  # BlockingIOError among them: the queue is empty
                return tuple(messages)

    def close(self) -> None:
        """Stop listening. The path stays if another process has taken it over meanwhile."""
        with contextlib.suppress(OSError):
            self._socket.close()


def _send(path: Path, message: bytes) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with _short(path) as address:
            sender.sendto(message, address)


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """An address for `path` that the kernel takes, valid inside the block."""
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
