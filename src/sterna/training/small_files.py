"""Small files between processes: JSON objects that are read with a limit, and written whole, durably, or not at all.

Messages between an engine and a worker need not survive the machine: those are `sterna.protocol.mailbox`.
"""

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from sterna.protocol.mailbox import read_regular
from sterna.training.checkpoint.disk import Disk

OBJECT_BYTES_MAX = 1 << 20  # more than any of these files has


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a small file; empty where there is none, or none that can be read."""
    content = read_regular(path, bytes_max=OBJECT_BYTES_MAX)
    try:
        body = json.loads(content or b"")
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file by one that survives a crash of the machine, or raise OSError and leave it as it was."""
    aside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident():x}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        rename_durably(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def rename_durably(source: Path, target: Path) -> None:
    """Put a file in the place of another, and sync the directory. Raises OSError."""
    os.replace(source, target)
    Disk().sync_directory(target.parent)
