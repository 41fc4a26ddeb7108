"""Directories with checkpoints for the tests: forged ones, and disks that fail."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from sterna.training.checkpoint.checkpoint_values import Json
from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.generations import FORMAT, MANIFEST, manifest_content, name_of


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def forge(
    directory: Path,
    shards: Mapping[int, bytes],
    *,
    seq: int = 1,
    incarnation: int = 1,
    files: Mapping[int, Mapping[str, bytes]] | None = None,
) -> Path:
    """A complete generation with these bytes for shards; all its digests fit."""
    path = directory / name_of(seq, incarnation)
    path.mkdir(parents=True)
    listed: list[Json] = []
    for rank, data in sorted(shards.items()):
        (path / f"rank-{rank}.sterna").write_bytes(data)
        written: dict[str, Json] = {}
        for name, text in (files or {}).get(rank, {}).items():
            target = path / f"rank-{rank}.files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            written[name] = [len(text), sha256(text)]
        listed.append({"rank": rank, "bytes": len(data), "sha256": sha256(data), "files": written})
    content: dict[str, Json] = {
        "format": FORMAT, "seq": seq, "incarnation": incarnation, "step": 10 * seq, "world_size": len(shards),
        "about": {}, "shards": listed,
    }  # fmt: skip
    (path / MANIFEST).write_text(json.dumps(manifest_content(content)))
    return path


class Crash(BaseException):
    """The process is gone: nothing of ours runs any more, so nothing may catch this."""


class Counting(Disk):
    """Passes everything on and counts the calls; `before` may raise instead."""

    def __init__(self) -> None:
        self.calls = 0

    def before(self, what: str, path: Path | None) -> None:
        self.calls += 1

    def after(self) -> None:
        return

    def make_directory(self, path: Path) -> None:
        self.before("make_directory", path)
        super().make_directory(path)
        self.after()

    def create(self, path: Path) -> int:
        self.before("create", path)
        fd = super().create(path)
        self.after()
        return fd

    def create_direct(self, path: Path) -> int:
        self.before("create", path)
        fd = super().create_direct(path)
        self.after()
        return fd

    def truncate(self, fd: int, size: int) -> None:
        self.before("truncate", None)
        super().truncate(fd, size)
        self.after()

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.before("write", None)
        half = max(1, len(data) // 2)  # short writes are allowed, and a crash between the two leaves half a file
        count = super().write(fd, memoryview(data)[:half])
        self.after()
        return count

    def sync(self, fd: int) -> None:
        self.before("sync", None)
        super().sync(fd)
        self.after()

    def rename(self, source: Path, target: Path) -> None:
        self.before("rename", target)
        super().rename(source, target)
        self.after()

    def sync_directory(self, path: Path) -> None:
        self.before("sync_directory", path)
        super().sync_directory(path)
        self.after()

    def remove(self, path: Path) -> None:
        self.before("remove", path)
        super().remove(path)
        self.after()

    def remove_tree(self, path: Path) -> None:
        self.before("remove_tree", path)
        super().remove_tree(path)
        self.after()


class Crashing(Counting):
    """Dies at the call of this number, before it has any effect; afterwards nothing has an effect any more."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def before(self, what: str, path: Path | None) -> None:
        if self.calls >= self._at:
            raise Crash
        super().before(what, path)


class Failing(Counting):
    """Says no to one call, with this error, and goes on as if nothing had been."""

    def __init__(self, at: int, error: int) -> None:
        super().__init__()
        self._at = at
        self._error = error

    def before(self, what: str, path: Path | None) -> None:
        super().before(what, path)
        if self.calls == self._at + 1:
            raise OSError(self._error, os.strerror(self._error), str(path or ""))


class Forgetful(Crashing):
    """Loses power at the call of this number: what was not synced may be gone.

    Names are journalled in order, as on ext4 or XFS: after the crash there is the state of some moment since the last
    sync of a directory. The bytes of a file are there for certain only if the file was synced.
    """

    def __init__(self, directory: Path, at: int, safe: Path) -> None:
        super().__init__(at)
        self._directory = directory
        self._safe = safe
        self._states: list[Path] = []  # copies of the directory since names were last synced, the synced one first
        self._inodes: dict[Path, dict[str, int]] = {}
        self._remember()
        self._synced = set(self._inodes[self._states[0]].values())  # what was there before has long been written

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._synced.add(os.fstat(fd).st_ino)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._states, self._inodes = [], {}
        self._remember()

    def before(self, what: str, path: Path | None) -> None:
        super().before(what, path)
        self._names_change = what not in ("write", "truncate", "sync", "sync_directory")

    def after(self) -> None:
        if self._names_change:
            self._remember()

    def come_back(self, chance: random.Random) -> None:
        """Put the directory into a state in which the machine might find it after the crash."""
        state = self._states[0] if chance.random() < 0.5 else chance.choice(self._states)
        shutil.rmtree(self._directory)
        shutil.copytree(state, self._directory)
        for name, inode in self._inodes[state].items():
            if inode not in self._synced:
                path = self._directory / name
                os.truncate(path, chance.choice([0, path.stat().st_size // 2, path.stat().st_size]))

    def _remember(self) -> None:
        state = self._safe / f"{self.calls}-{len(self._states)}"
        if state.exists():
            shutil.rmtree(state)
        shutil.copytree(self._directory, state)
        self._states.append(state)
        self._inodes[state] = {
            path.relative_to(self._directory).as_posix(): path.stat().st_ino
            for path in self._directory.rglob("*")
            if path.is_file()
        }
