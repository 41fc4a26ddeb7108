"""Where the ranks of one launch say where they are: a small file with one record for the cut and one for each rank.

Every record has one writer. It is overwritten in place and carries a checksum: a reader that catches it half-written
takes it as not yet written. A look costs about a microsecond, which is why this is not a file per message. Where the
disk fails, what was read last stands and writes say that they did not happen: training is worth more than agreeing.

On a file system of several machines (NFS) an open file may show for a minute what its machine has in its cache: there
records are written through, which also keeps them from being written together with a neighbour's old one, and the file
is opened anew every so often, which is when such file systems promise to look at the server. The rules of `cut` bear
readers that are behind: what they have not yet seen makes them wait, or the cut move, and never agree on two steps.
"""

import os
import struct
import time
import zlib
from pathlib import Path

from sterna.training.data.file_systems import shared_between_machines
from sterna.training.ranks.cut import NO_CUT, Cut, Kind, RankPost, State

_FIELDS = struct.Struct("<qiBBH")
_RECORD_BYTES = _FIELDS.size + 4
_ARRIVED, _STANDING, _DONE = 1, 2, 4
_OPEN_ANEW_S = 0.2
_KINDS, _STATES = frozenset(Kind), frozenset(State)


class Board:
    """The chief creates it (and so decides which one counts), the others open it by its path."""

    def __init__(self, path: Path, *, rank: int, world_size: int) -> None:
        self.path = path
        self._rank = rank
        self._world_size = world_size
        self._cached = shared_between_machines(path)
        self._descriptor = self._opened()
        self._cut = (b"", NO_CUT)  # as last read, raw and understood: usually nothing has changed
        self._posts: list[tuple[bytes, RankPost]] = [(b"", RankPost(0, 0))] * world_size

    @staticmethod
    def create(path: Path, *, world_size: int, step: int) -> None:
        """With all ranks at `step`. Written aside and renamed: a board that can be opened is complete."""
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        post = _packed_post(RankPost(step, 0))
        aside.write_bytes(_packed_cut(NO_CUT) + post * world_size)
        os.replace(aside, path)

    def cut(self) -> Cut:
        """As last written by the chief; what it was before, if that cannot be read."""
        raw = self._read(_RECORD_BYTES, 0)
        fields = _unpacked(raw) if raw != self._cut[0] else None
        if fields is not None and fields[2] in _KINDS and fields[3] in _STATES:
            self._cut = (raw, Cut(fields[0], fields[1], Kind(fields[2]), State(fields[3])))
        return self._cut[1]

    def write_cut(self, cut: Cut) -> bool:
        """Chief only. Whether it is written."""
        return self._write(_packed_cut(cut), 0)

    def write_post(self, post: RankPost) -> bool:
        """This rank's own. Whether it is written."""
        return self._write(_packed_post(post), _RECORD_BYTES * (1 + self._rank))

    def others(self) -> tuple[RankPost, ...]:
        """All posts but this rank's own, in order of rank."""
        content = self._read(_RECORD_BYTES * self._world_size, _RECORD_BYTES)
        for rank, (before, _) in enumerate(self._posts):
            raw = content[rank * _RECORD_BYTES : (rank + 1) * _RECORD_BYTES]
            if raw != before and (fields := _unpacked(raw)) is not None and fields[2] in _KINDS:
                boundary, knows, wants, flags = fields
                arrived, standing, done = (bool(flags & flag) for flag in (_ARRIVED, _STANDING, _DONE))
                self._posts[rank] = (raw, RankPost(boundary, knows, arrived, standing, done, Kind(wants)))
        return tuple(post for rank, (_, post) in enumerate(self._posts) if rank != self._rank)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> int:
        self._opened_s = time.monotonic()
        return os.open(self.path, os.O_RDWR | os.O_CLOEXEC | (os.O_DSYNC if self._cached else 0))

    def _open_anew(self) -> None:
        try:
            descriptor = self._opened()
        except OSError:
            return  # it was cleared away, or the server is not there: what we have is still ours
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _read(self, length: int, offset: int) -> bytes:
        if self._cached and self._descriptor >= 0 and time.monotonic() - self._opened_s >= _OPEN_ANEW_S:
            self._open_anew()
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError:
            return b""

    def _write(self, record: bytes, offset: int) -> bool:
        try:
            return os.pwrite(self._descriptor, record, offset) == len(record)
        except OSError:
            return False


def _packed_cut(cut: Cut) -> bytes:
    return _packed(cut.step, cut.id, cut.kind, cut.state)


def _packed_post(post: RankPost) -> bytes:
    flags = post.arrived * _ARRIVED | post.standing * _STANDING | post.done * _DONE
    return _packed(post.boundary, post.knows, post.wants, flags)


def _packed(step: int, cut_id: int, kind: int, flags: int) -> bytes:
    fields = _FIELDS.pack(step, cut_id, kind, flags, 0)
    return fields + zlib.crc32(fields).to_bytes(4, "little")


def _unpacked(raw: bytes) -> tuple[int, int, int, int] | None:
    fields = raw[: _FIELDS.size]
    if len(raw) != _RECORD_BYTES or zlib.crc32(fields) != int.from_bytes(raw[_FIELDS.size :], "little"):
        return None
    step, cut_id, kind, flags, _ = _FIELDS.unpack(fields)
    return step, cut_id, kind, flags
