"""The directory that holds all state of one local engine: which user may read it, and which engine owns it now.

sterna.db      jobs, workers, nodes, events (`database.py`)
journal/       decisions, for replay
distribution.csv  what rebalancers looked at and moved, in SpeCon's columns
jobs/<uid>/    checkpoints/ and workers/<uid>/ (mailbox, logs)
lock           held by the one engine
.reserve       room that is given up when the disk is full; .probe is what is written to find that out (`disk_watch.py`)

Where it is and how clients find the engine in it (token, endpoint.json) is `interfaces/api/engine_home.py`.
"""

import fcntl
import os
from pathlib import Path

from sterna.model.errors import Conflict, InvalidRequest


class Home:
    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.database = self.root / "sterna.db"
        self.journal = self.root / "journal"
        self.jobs = self.root / "jobs"
        self.distribution = self.root / "distribution.csv"
        self._lock = self.root / "lock"
        self._held: int | None = None

    def prepare(self) -> None:
        """Make the directories, for the user alone."""
        try:
            for directory in (self.root, self.journal, self.jobs):
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.chmod(self.root, 0o700)
        except OSError as error:
            expected = f"a directory that can be written ({error.strerror})"
            raise InvalidRequest(field="home", value=str(self.root), expected=expected) from None

    def acquire(self) -> None:
        """Become the one engine of this home, until `release` or the end of the process."""
        held = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(held, 32, 0).decode(errors="replace").strip()
            os.close(held)
            whose = f"process {owner}" if owner else "another process"
            raise Conflict(f"{whose} already runs the engine of {self.root}: stop it, or choose another home") from None
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
        self._held = held

    def release(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def job(self, uid: str) -> Path:
        return self.jobs / uid

    def checkpoints(self, uid: str) -> Path:
        return self.jobs / uid / "checkpoints"

    def mailbox(self, job_uid: str, worker_uid: str) -> Path:
        return self.jobs / job_uid / "workers" / worker_uid


def written_aside(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file at once: readers see the old one or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    os.chmod(aside, mode)
    os.replace(aside, path)
