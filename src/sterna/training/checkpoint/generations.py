"""Generations on disk: what they are called, which are complete, whether they still are what was written.

    gen-000007-i3/                  the seventh save, made by incarnation 3
        rank-0.sterna               the shared objects and rank 0's own
        rank-0.json                 its size and digest, and who wrote it: how ranks find each other
        rank-0.files/0/model.keras  what a callable of the program wrote, if one did
        rank-1.sterna ...
        manifest.json               written last, by rank 0: the generation is complete if and only if this is there

Reading only. A name that is followed is never taken from a file: it is made from numbers, or found by listing.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, reading, short
from sterna.training.checkpoint.checkpoint_values import Generation, Json
from sterna.training.checkpoint.disk import digest_of, open_regular, read_json

MANIFEST = "manifest.json"
FORMAT = 1
WORLD_SIZE_MAX = 1_000_000
_NAME = re.compile(r"gen-(\d{6,15})-i(\d{1,15})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WHOLE_MAX = 10**18  # of anything that is counted here; Python's own numbers know no end


@dataclass(frozen=True, slots=True)
class Shard:
    """What one rank wrote, as the manifest knows it."""

    rank: int
    bytes: int
    sha256: str
    files: Mapping[str, tuple[int, str]]  # by path below rank-<r>.files: size and SHA-256

    @property
    def total_bytes(self) -> int:
        return self.bytes + sum(size for size, _ in self.files.values())

    def to_json(self) -> dict[str, Json]:
        files: dict[str, Json] = {name: list(entry) for name, entry in sorted(self.files.items())}
        return {"rank": self.rank, "bytes": self.bytes, "sha256": self.sha256, "files": files}

    @staticmethod
    def from_json(content: Any) -> "Shard":
        """Raises Damaged."""
        entry = _object(content, "a shard")
        listed = _object(entry.get("files"), "its files")
        if not all(isinstance(file, list) and len(file) == 2 for file in listed.values()):
            raise Damaged("a file of a shard has no size and digest")
        files = {name: (_whole(size, "bytes"), _sha256(digest)) for name, (size, digest) in listed.items()}
        return Shard(
            _whole(entry.get("rank"), "rank"), _whole(entry.get("bytes"), "bytes"), _sha256(entry.get("sha256")), files
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    generation: Generation
    shards: tuple[Shard, ...]  # by rank, none missing


def name_of(seq: int, incarnation: int) -> str:
    return f"gen-{seq:06}-i{incarnation}"


def order_of(name: str) -> tuple[int, int] | None:
    """(incarnation, seq) by a directory's name, which is also the order in time; None: it is no generation."""
    found = _NAME.fullmatch(name)
    return (int(found[2]), int(found[1])) if found else None


def shard_name(rank: int) -> str:
    return f"rank-{rank}.sterna"


def files_name(rank: int) -> str:
    return f"rank-{rank}.files"


def manifest_content(content: Mapping[str, Json]) -> dict[str, Json]:
    """A manifest as it is written: with a digest of itself, so that a flipped bit in it is noticed too."""
    return {"manifest": dict(content), "sha256": _self_digest(content)}


def read_manifest(path: Path) -> Manifest:
    """The manifest of the generation in this directory. Raises FileNotFoundError if it is not complete, or Damaged."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise Damaged(f"{path.name} is not a directory")
    with reading(f"the manifest of {path.name}"):
        return _manifest(path, _object(read_json(path / MANIFEST), "the file"))


def _manifest(path: Path, whole: Mapping[str, Any]) -> Manifest:
    content, digest = _object(whole.get("manifest"), "its content"), whole.get("sha256")
    if _self_digest(content) != digest:
        raise Damaged(f"the manifest of {path.name} does not match its digest")
    if content.get("format") is True or content.get("format") != FORMAT:
        raise Damaged(f"the manifest of {path.name} has format {short(content.get('format'))}, expected {FORMAT}")
    listed = content.get("shards")
    if not isinstance(listed, list):
        raise Damaged(f"the manifest of {path.name} lists no shards")
    shards = tuple(Shard.from_json(one) for one in listed)
    generation = Generation(
        name=path.name,
        path=path,
        seq=_whole(content.get("seq"), "seq"),
        incarnation=_whole(content.get("incarnation"), "incarnation"),
        step=_whole(content.get("step"), "step"),
        world_size=_whole(content.get("world_size"), "world_size"),
        about=_object(content.get("about"), "about"),
        bytes=sum(shard.total_bytes for shard in shards),
        digest=digest,
    )
    if generation.order != order_of(path.name):
        raise Damaged(f"the manifest of {path.name} is that of another generation")
    if not shards or [generation.world_size, *range(len(shards))] != [len(shards), *(one.rank for one in shards)]:
        raise Damaged(f"the manifest of {path.name} does not name each of its {generation.world_size} ranks once")
    return Manifest(generation, shards)


def verify_files(top: Path, expected: Mapping[str, tuple[int, str]]) -> None:
    """Raise Damaged unless these files are there, byte for byte, and no others."""
    there = files_below(top)
    for name in sorted({*there, *expected}):
        if there.get(name) != expected.get(name):
            raise Damaged(f"{top.name}/{name} of {top.parent.name} does not match its digest")


def files_below(top: Path) -> dict[str, tuple[int, str]]:
    """Size and digest of all files below a directory. Raises Damaged for anything but files and directories."""
    entries: dict[str, tuple[int, str]] = {}
    if not stat.S_ISDIR(top.lstat().st_mode):
        raise Damaged(f"{top.name} of {top.parent.name} is not a directory")
    open_directories = [top]
    while open_directories:
        directory = open_directories.pop()
        for entry in os.scandir(directory):
            path, mode = Path(entry.path), entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                open_directories.append(path)
                continue
            if not stat.S_ISREG(mode):
                raise Damaged(f"{path.name} in {directory.name} is neither a file nor a directory")
            with opened(path) as fd:
                entries[path.relative_to(top).as_posix()] = digest_of(fd)
    return entries


@contextmanager
def being_read(path: Path) -> Iterator[None]:
    """Hold a generation against removal. The system lets go when this process dies, so no mark is ever left behind."""
    fd = os.open(path / MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _try_lock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


@contextmanager
def unless_read(path: Path) -> Iterator[bool]:
    """Whether no process reads this generation. While this is held, one that begins to read is not protected."""
    try:
        fd = os.open(path / MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield True
        return
    try:
        yield _try_lock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: keeping two generations must do
        return True
    return True


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A file of a generation, for reading. Raises Damaged where there is none, CheckpointProblem where it may pass."""
    try:
        with open_regular(path) as fd:
            yield fd
    except FileNotFoundError as error:
        raise Damaged(f"{path.name} of {path.parent.name} is missing") from error
    except OSError as error:
        kind = Damaged if error.errno == errno.ELOOP else CheckpointProblem  # a link is; trouble of the disk may pass
        raise kind(f"{path.name} of {path.parent.name} cannot be read: {error.strerror}") from error


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Damaged(f"{what} is {short(value)}, expected an object")
    return value


def _whole(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _WHOLE_MAX:
        raise Damaged(f"{what} is {short(value)}, expected a whole number from 0 to {_WHOLE_MAX}")
    return value


def _sha256(value: object) -> str:
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise Damaged(f"sha256 is {short(value)}, expected 64 hexadecimal digits")
    return value


def _self_digest(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
