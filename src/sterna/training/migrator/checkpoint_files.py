"""The checkpoint files: writing one aside under a running digest, and finding out which are whole.

The file is what `torch.save` writes, so that pytorchjob-migration and other programs can read it; the digest lies in
the manifest beside it. Two are kept, the newest under the name the user gave.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sterna.training.checkpoint.checkpoint_problems import Damaged
from sterna.training.checkpoint.disk import digest_of as digest_of_open
from sterna.training.checkpoint.disk import open_regular
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import Generation


class Written(NamedTuple):
    digest: str
    bytes: int


class Stock(NamedTuple):
    """What is on disk."""

    complete: dict[Path, Generation]
    damaged: tuple[Path, ...]  # not what the manifest says was written


def take_stock(desk: Desk) -> Stock:
    """Read every checkpoint file and compare it with the manifest. Without a manifest, what is there is trusted."""
    listed = desk.listed()
    complete: dict[Path, Generation] = {}
    damaged: list[Path] = []
    for path in (desk.places.checkpoint, desk.places.previous):
        found = digest_of(path)
        if found is None:
            continue
        entry = next((entry for entry in listed or () if entry.digest == found.digest), None)
        if entry is not None:
            complete[path] = entry
        elif listed is None and path == desk.places.checkpoint:
            lineage = f"file-{found.digest[:16]}"  # the same in every process
            complete[path] = Generation(number=0, digest=found.digest, bytes=found.bytes, lineage=lineage)
        else:
            damaged.append(path)
    return Stock(complete, tuple(damaged))


def find(desk: Desk, digest: str) -> Path | None:
    """The file with this digest: it may have become the previous one meanwhile."""
    for path in (desk.places.checkpoint, desk.places.previous):
        found = digest_of(path)
        if found is not None and found.digest == digest:
            return path
    return None


def digest_of(path: Path) -> Written | None:
    """None: there is no such file, or it cannot be read."""
    try:
        with open_regular(path, follow=True) as fd:
            size, digest = digest_of_open(fd)
    except (OSError, Damaged):
        return None
    return Written(digest, size)


def write_aside(desk: Desk, dump: Callable[[Any], None]) -> Written:
    """Have `dump` write a checkpoint into a file that is not used as one yet, and sync it. Raises OSError."""
    try:
        with desk.aside.open("wb") as file:
            digested = Digested(file.write)
            dump(digested)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        desk.aside.unlink(missing_ok=True)
        raise
    return digested.written


def digest_only(dump: Callable[[Any], None]) -> Written:
    """What `write_aside` would answer, without a file: has anything changed meanwhile?"""
    digested = Digested(len)
    dump(digested)
    return digested.written


class Digested:
    """As much of a binary file as `torch.save` asks for; passes on what is written and digests it on the way."""

    def __init__(self, write: Callable[[Any], int]) -> None:
        self._write = write
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, content: Any) -> int:
        self._digest.update(content)
        self._bytes += len(content)
        return self._write(content)

    def flush(self) -> None:
        pass

    @property
    def written(self) -> Written:
        """Digest and size of what was written so far."""
        return Written(self._digest.hexdigest(), self._bytes)
