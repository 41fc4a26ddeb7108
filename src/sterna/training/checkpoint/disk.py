"""The few things that saving asks of a file system, in one place, so that a test can let any one of them fail.

Durable means: the bytes were synced, then the name, then the directory that holds the name.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import Damaged, short
from sterna.training.checkpoint.memory import readable

WRITE_BYTES = 8 << 20  # per call: large enough to be cheap, small enough that the cache still holds it for the digest
_NOT_FOR_DIRECTORIES = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES}  # some file systems sync no directories
BLOCK_BYTES = 4096
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECT = getattr(os, "O_DIRECT", 0)  # not everywhere
JSON_BYTES_MAX = 16 << 20  # of a manifest and its like: anything longer is not one


class Disk:
    """Effects only. Every method raises OSError when the system says no."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=0o700, exist_ok=True)

    def create(self, path: Path) -> int:
        return os.open(path, _CREATE, 0o600)

    def create_direct(self, path: Path) -> int:
        """Past the page cache where the file system can; what is written then must be aligned to `BLOCK_BYTES`."""
        try:
            return os.open(path, _CREATE | _DIRECT, 0o600)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            path.unlink(missing_ok=True)  # some make the file first and find out then
            return self.create(path)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _NOT_FOR_DIRECTORIES:
                raise
        finally:
            os.close(fd)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)  # what stays behind is tried again by the next retention


def write_file(disk: Disk, path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write a new file and sync it; its size and SHA-256. A file that could not be finished is removed."""
    return _finished(disk, path, disk.create(path), lambda fd: _poured(disk, fd, pieces))


def write_aligned(disk: Disk, path: Path, stretches: Iterable[tuple[int, int]]) -> tuple[int, str]:
    """The same from memory that is aligned to blocks, given by address and length, past the page cache.

    Training needs the processor, and the cache for its data, more than a file does that is hardly ever read again:
    for 100 MB this takes 6 ms of processor time instead of 40 to 70. All lengths but the last are whole blocks, and
    the memory of the last one goes on to the end of its block.
    """
    return _finished(disk, path, disk.create_direct(path), lambda fd: _laid(disk, fd, stretches))


def write_json(disk: Disk, path: Path, content: object, *, aside: str) -> None:
    """Put a small file in place, whole or not at all; the directory is not synced."""
    part = path.with_name(f".{path.name}.{aside}.part")
    disk.remove(part)
    write_file(disk, part, [json.dumps(content, indent=1).encode()])
    disk.rename(part, path)


def read_json(path: Path) -> Any:
    """What `write_json` wrote. Raises FileNotFoundError, OSError, or Damaged for anything that is not JSON."""
    with open_regular(path) as fd:
        text = os.pread(fd, JSON_BYTES_MAX + 1, 0)
    if len(text) > JSON_BYTES_MAX:
        raise Damaged(f"{path.name} is longer than {JSON_BYTES_MAX} bytes")
    try:
        return json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path.name} is not JSON: {short(error)}") from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that stands twice: no two readers need agree on what such an object says."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice")
    return content


@contextmanager
def open_regular(path: Path, *, follow: bool = False) -> Iterator[int]:
    """Open a file for reading that is one: no pipe whose writer is waited for, and no link unless `follow`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Damaged(f"{path.name} in {path.parent.name} is not a regular file")
        yield fd
    finally:
        os.close(fd)


def digest_of(fd: int) -> tuple[int, str]:
    """Size and SHA-256 of an open file, read from its beginning."""
    digest, size = hashlib.sha256(), 0
    room = memoryview(bytearray(1 << 20))
    while count := os.preadv(fd, [room], size):
        digest.update(room[:count])
        size += count
    return size, digest.hexdigest()


def _finished(disk: Disk, path: Path, fd: int, write: Callable[[int], tuple[int, str]]) -> tuple[int, str]:
    try:
        try:
            size, digest = write(fd)
            disk.sync(fd)
        finally:
            disk.close(fd)
    except OSError:  # a full disk above all: half a file would only keep it full
        disk.remove(path)
        raise
    return size, digest


def _laid(disk: Disk, fd: int, stretches: Iterable[tuple[int, int]]) -> tuple[int, str]:
    digest, size, written = hashlib.sha256(), 0, 0
    for address, nbytes in stretches:
        digest.update(readable(address, nbytes))
        size += nbytes
        whole = readable(address, nbytes + -nbytes % BLOCK_BYTES)
        written += len(whole)
        while whole:
            try:
                whole = whole[disk.write(fd, whole) :]
            except OSError as error:  # larger blocks than ours, or only half of the last write was taken
                flags = fcntl.fcntl(fd, fcntl.F_GETFL)
                if error.errno != errno.EINVAL or not flags & _DIRECT:
                    raise
                fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~_DIRECT)
    if written != size:
        disk.truncate(fd, size)
    return size, digest.hexdigest()


def _poured(disk: Disk, fd: int, pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    small = bytearray()
    for piece in pieces:
        if len(small) + len(piece) <= WRITE_BYTES // 8:  # thousands of small tensors make a few writes
            small += piece
            continue
        size += _written(disk, fd, small, digest)
        small = bytearray()
        size += _written(disk, fd, piece, digest)
    size += _written(disk, fd, small, digest)
    return size, digest.hexdigest()


def _written(disk: Disk, fd: int, data: bytes | bytearray | memoryview, digest: Any) -> int:
    view = memoryview(data)
    for start in range(0, len(view), WRITE_BYTES):
        chunk = view[start : start + WRITE_BYTES]
        digest.update(chunk)
        while chunk:
            chunk = chunk[disk.write(fd, chunk) :]
    return len(view)
