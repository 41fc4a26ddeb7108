"""One file that holds trees: a JSON skeleton, then the raw buffers it speaks of. Nothing in it can be run.

    8 bytes   magic
    8 bytes   length of the header, little endian
    header    JSON: {"format": 1, "trees": {name: skeleton}, "buffers": [[offset, bytes], ...]}
    body      the buffers in order, each at a multiple of 64 from the body's start, which is one of 4096

A `Draft` is an archive about to be written: the plain values are already in it, the big memory is only pointed at.
Reading trusts nothing: every length and offset is checked against the file before memory is set aside for it.
"""

import json
import os
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.arrays import (
    Arrays,
    Tensors,
    array_from,
    empty_array,
    empty_tensor,
    scalar_from,
    tensor_from,
)
from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, reading, short
from sterna.training.checkpoint.checkpoint_values import FilesToSave, Json, SavedFiles
from sterna.training.checkpoint.disk import BLOCK_BYTES, Disk, write_file
from sterna.training.checkpoint.memory import Part, address_of_bytes, readable
from sterna.training.checkpoint.skeleton import decoded, encoded

MAGIC = b"STERNA\x01\n"
FORMAT = 1
ALIGNMENT = 64
HEADER_BYTES_MAX = 256 << 20
_FILE_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}"
_LENGTH = struct.Struct("<Q")
_PADDING = bytes(ALIGNMENT)


class Draft:
    """Trees on their way into an archive."""

    def __init__(self, trees: Mapping[str, object], *, lent: Iterable[int] = ()) -> None:
        self.parts: list[Part] = []
        self.offsets: list[int] = []  # of each part in the body
        self.body_bytes = 0
        self.files: list[FilesToSave] = []
        leaves = _LeavesOut(self, frozenset(lent))
        self._trees = {name: encoded(tree, leaves) for name, tree in trees.items()}
        leaves.place()

    def add(self, part: Part) -> int:
        """Give a stretch of memory its place in the body; the number of its buffer."""
        self.body_bytes = _aligned(self.body_bytes)
        self.parts.append(part)
        self.offsets.append(self.body_bytes)
        self.body_bytes += part.nbytes
        return len(self.parts) - 1

    def let_go(self) -> None:
        """Forget everything but the size: nothing of the program's is kept alive any longer than needed."""
        self.parts, self.offsets, self.files, self._trees = [], [], [], {}

    def head(self) -> bytes:
        """Everything before the body."""
        buffers = [[offset, part.nbytes] for offset, part in zip(self.offsets, self.parts, strict=True)]
        content = {"format": FORMAT, "trees": self._trees, "buffers": buffers}
        header = json.dumps(content, separators=(",", ":")).encode("ascii")
        header += b" " * (-(len(MAGIC) + _LENGTH.size + len(header)) % BLOCK_BYTES)  # so the body begins a block
        if len(header) > HEADER_BYTES_MAX:
            raise CheckpointProblem(
                f"cannot be saved: the plain values alone make {len(header)} bytes of JSON, at most {HEADER_BYTES_MAX}"
                " are possible: keep long sequences of numbers as arrays"
            )
        return MAGIC + _LENGTH.pack(len(header)) + header

    def write(self, disk: Disk, path: Path) -> tuple[int, str]:
        """Straight from the memory it all lies in, which must not change meanwhile. Size and digest."""
        return write_file(disk, path, chain([self.head()], self.body()))

    def body(self) -> Iterator[memoryview]:
        """The buffers in order, with the padding between them."""
        end = 0
        for offset, part in zip(self.offsets, self.parts, strict=True):
            if offset > end:
                yield memoryview(_PADDING)[: offset - end]
            yield readable(part.address, part.nbytes)
            end = offset + part.nbytes


class _LeavesOut:
    def __init__(self, draft: Draft, lent: frozenset[int]) -> None:
        self._draft = draft
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        self._tensors = Tensors(torch, lent) if hasattr(torch, "nn") else None
        self._arrays = Arrays(numpy, draft.add) if hasattr(numpy, "ndarray") else None

    def foreign(self, value: object) -> dict[str, Json] | None:
        if self._tensors is not None and self._tensors.recognises(value):
            return self._tensors.node(value)
        return None if self._arrays is None else self._arrays.node(value)

    def long_bytes(self, value: bytes | bytearray) -> Json:
        kept = bytes(value)  # of bytes this is the object itself
        return self._draft.add(Part(address_of_bytes(kept), len(kept), kept, True))

    def files(self, value: FilesToSave) -> Json:
        self._draft.files.append(value)
        return [len(self._draft.files) - 1, value.name]

    def place(self) -> None:
        if self._tensors is not None:
            self._tensors.place(self._draft.add)


class ArchiveReader:
    """An open archive. Give it a file whose digest has been verified: what it checks itself is form, not content."""

    def __init__(self, fd: int, *, name: str, files: Path) -> None:
        self._fd = fd
        self._name = name
        self._files = files  # where what a `FilesToSave` wrote lies
        size = os.fstat(fd).st_size
        start = len(MAGIC) + _LENGTH.size
        prelude = os.pread(fd, start, 0)
        if len(prelude) < start or not prelude.startswith(MAGIC):
            raise Damaged(f"{name} is not an archive of this kind: it does not begin as one")
        (length,) = _LENGTH.unpack_from(prelude, len(MAGIC))
        if length > min(HEADER_BYTES_MAX, size - start):
            raise Damaged(f"{name} claims a header of {length} bytes, which it cannot have")
        self._body_start = start + length
        self._trees, self._buffers = self._parsed(os.pread(fd, length, start), size - self._body_start)
        self._bases: dict[int, tuple[str, Any]] = {}  # memory of the buffers read so far, and what kind each is

    def tree(self, name: str) -> Any:
        """One of the trees; the buffers that it names are read, the others are not."""
        if name not in self._trees:
            raise Damaged(f"{self._name} has no tree {name!r}")
        return decoded(self._trees[name], self)

    def foreign(self, kind: str, node: Any) -> object:
        match kind:
            case "tensor":
                return tensor_from(node, lambda number: self._base(kind, number, empty_tensor))
            case "array":
                return array_from(node, lambda number: self._base(kind, number, empty_array))
            case "scalar":
                return scalar_from(node)
        raise Damaged(f"{self._name} has a value of the unknown kind {short(kind)}")

    def long_bytes(self, node: Any) -> bytes:
        """The same object for every reference to this buffer: it is immutable."""
        kept = self._base("bytes", node, _room)
        if isinstance(kept, bytearray):  # just read
            kept = bytes(kept)
            self._bases[node] = ("bytes", kept)
        found: bytes = kept
        return found

    def own_bytes(self, node: Any) -> bytearray:
        """A buffer's bytes as mutable memory: for one reference only, or a small file would fill the memory."""
        if type(node) is int and node in self._bases:
            raise Damaged(f"{self._name} gives buffer {node} to two owners")
        found: bytearray = self._base("bytearray", node, _room)
        return found

    def files(self, node: Any) -> SavedFiles:
        """Where what a `FilesToSave` wrote lies. Raises Damaged for a name that leaves its directory."""
        number, name = node
        if type(number) is not int or number < 0 or not is_file_name(name):
            raise Damaged(f"{self._name} names a file that it must not: {short(name)}")
        path = self._files / str(number) / name
        if not path.exists():
            raise Damaged(f"{self._name} names a file that is not there: {number}/{name}")
        return SavedFiles(path)

    def _base(self, kind: str, number: Any, make: Any) -> Any:
        """The memory of a buffer, read once: whatever shared it shares it again.

        A buffer is of one kind. So all buffers together take no more memory than the file has bytes.
        """
        if type(number) is not int or not 0 <= number < len(self._buffers):
            raise Damaged(f"{self._name} names a buffer {short(number)} that it does not have")
        known = self._bases.get(number)
        if known is not None:
            if known[0] != kind:
                raise Damaged(f"{self._name} names buffer {number} as {known[0]} and as {kind}")
            return known[1]
        offset, nbytes = self._buffers[number]
        base, window = make(nbytes)
        self._fill(window, self._body_start + offset)
        self._bases[number] = (kind, base)
        return base

    def _fill(self, window: memoryview, offset: int) -> None:
        while window:
            count = os.preadv(self._fd, [window], offset)
            if not count:
                raise Damaged(f"{self._name} ends in the middle of a buffer")
            window, offset = window[count:], offset + count

    def _parsed(self, header: bytes, body_bytes: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
        with reading(f"the header of {self._name}"):
            content = json.loads(header, parse_constant=_no_number)
            if content["format"] is True or content["format"] != FORMAT:
                raise Damaged(f"{self._name} has format {short(content['format'])}, expected {FORMAT}")
            trees, buffers = content["trees"], [(offset, nbytes) for offset, nbytes in content["buffers"]]
        if not isinstance(trees, dict):
            raise Damaged(f"{self._name} has trees that are none: {short(trees)}")
        end = 0
        for offset, nbytes in buffers:  # in order and apart: no archive can unfold into more than its own size
            if type(offset) is not int or type(nbytes) is not int or offset < end or nbytes < 0:
                raise Damaged(f"{self._name} has buffers that overlap or are out of order")
            end = offset + nbytes
        if end > body_bytes:
            raise Damaged(f"{self._name} has buffers of {short(end)} bytes in a body of {body_bytes}")
        return trees, buffers


def _room(nbytes: int) -> tuple[bytearray, memoryview]:
    room = bytearray(nbytes)
    return room, memoryview(room)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON: such numbers are kept by their bits")


def is_file_name(name: object) -> bool:
    """Whether this may be the last part of a path: no separators, no leading dot."""
    return isinstance(name, str) and re.fullmatch(_FILE_NAME, name) is not None


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
