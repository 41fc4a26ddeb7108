"""How messages get into and out of a worker's mailbox directory: whole or not at all.

A file is written aside and moved into place, so a reader sees the old message or the new one, never a part. Nothing is
synced to disk: messages live as long as the processes they are about, and none of those survives the machine.
"""

import os
import stat
import threading
from pathlib import Path

from sterna.protocol.messages import Orders, Status

ORDERS_FILE = "orders.json"
STATUS_FILE = "status.json"
WAKE_SOCKET = "wake"

_MESSAGE_BYTES_MAX = 1 << 20  # no honest message comes near; a reader does not load more


def write_orders(mailbox: str | os.PathLike[str], orders: Orders) -> None:
    """Engine's side. Follow it with `wake_worker`. Raises OSError, for instance when the mailbox is gone."""
    write_atomically(Path(mailbox) / ORDERS_FILE, orders.to_json())


def read_orders(mailbox: str | os.PathLike[str]) -> Orders | None:
    """Worker's side. None: there are none yet, or they cannot be read."""
    text = read_regular(Path(mailbox) / ORDERS_FILE, bytes_max=_MESSAGE_BYTES_MAX)
    return None if text is None else Orders.from_json(text)


def write_status(mailbox: str | os.PathLike[str], status: Status) -> None:
    """Worker's side. Raises OSError."""
    write_atomically(Path(mailbox) / STATUS_FILE, status.to_json())


def read_status(mailbox: str | os.PathLike[str]) -> Status | None:
    """Engine's side. None: the worker has not said anything yet, or not anything that can be read."""
    text = read_regular(Path(mailbox) / STATUS_FILE, bytes_max=_MESSAGE_BYTES_MAX)
    return None if text is None else Status.from_json(text)


def write_atomically(path: Path, text: str) -> None:
    """The file's whole new content, or an OSError and the old one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident():x}")  # no two writers share one
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def read_regular(path: Path, *, bytes_max: int) -> bytes | None:
    """A file's content. None: there is none, it is longer, or it is a pipe, a device or a link instead of a file.

    Never waits: a program that may write to a directory may put a pipe there, and its reader would wait for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > bytes_max:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return content if len(content) <= bytes_max else None
