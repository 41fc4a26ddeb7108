"""One process's output, read from its first kept byte on, across rotation: `log`, and beside it `log.1`, `log.2`, ...

The part that is being read is held open, so its inode stays its own and tells where in the row of parts it stands,
however often the writer rotates meanwhile. `LogReader` blocks; `LogFile.open` lends it a thread.
"""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

CHUNK_BYTES = 1 << 16

_PARTS_MAX = 1000


class LogFile(NamedTuple):
    """What one process has written, and where."""

    worker: str  # uid of the process's worker: job, role, ordinal and five letters of its own
    path: Path
    live: bool

    @property
    def seat(self) -> str:
        return self.worker.rpartition("-")[0]

    @property
    def key(self) -> str:
        return str(self.path)

    async def open(self, *, tail: int | None, follow: bool) -> "OpenLog":
        return OpenLog(await asyncio.to_thread(LogReader, self.path, tail=tail), follow=follow)


class OpenLog:
    """A log that is being read, a thread at a time."""

    def __init__(self, reader: "LogReader", *, follow: bool) -> None:
        self._reader = reader
        self._left = None if follow else reader.pending_bytes  # a busy writer must not keep the reader without end
        self.dry = False

    async def read(self) -> bytes:
        if self._left == 0:
            return b""
        content = await asyncio.to_thread(self._reader.read)
        self.dry = not content
        if self._left is not None:
            content = content[: self._left]
            self._left -= len(content)
        return content

    async def close(self) -> None:
        self._reader.close()


class LogReader:
    """Reads on from where it was. Parts that retention took away before they were reached are skipped."""

    def __init__(self, path: Path, *, tail: int | None = None) -> None:
        self._path = path
        self._parts: deque[BinaryIO] = deque(_opened(path))
        if tail is not None:
            self._skip_to_tail(tail)
        self.pending_bytes = sum(os.fstat(part.fileno()).st_size - part.tell() for part in self._parts)  # when opened

    def read(self) -> bytes:
        """The next bytes, at most a chunk; empty: nothing new now."""
        while True:
            if self._parts and (content := self._parts[0].read(CHUNK_BYTES)):
                return content
            if len(self._parts) > 1:
                self._parts.popleft().close()
            elif not self._follow_rotation():
                return b""

    def close(self) -> None:
        while self._parts:
            self._parts.popleft().close()

    def _follow_rotation(self) -> bool:
        """Take up the parts after the one in hand. True: there is something to read again, or may be."""
        if not self._parts:
            self._parts.extend(_opened(self._path))
            return bool(self._parts)
        mine = os.fstat(self._parts[0].fileno())
        if _is(self._path, mine):
            return False
        newer = _opened(self._path)
        for place, part in enumerate(newer):
            if os.path.samestat(os.fstat(part.fileno()), mine):
                for known in newer[: place + 1]:
                    known.close()
                newer = newer[place + 1 :]
                break
        self._parts.extend(newer)  # behind the one in hand, whose last bytes may have come just before it was rotated
        return bool(newer)

    def _skip_to_tail(self, lines: int) -> None:
        """Put the parts so that the last `lines` lines are ahead."""
        ends = lines + 1 if lines and _last_byte(self._parts) == b"\n" else lines  # the last end begins no line
        kept: deque[BinaryIO] = deque()
        while self._parts:
            kept.appendleft(self._parts.pop())
            ends = _seek_back(kept[0], ends)
            if ends <= 0:
                break
        self.close()
        self._parts = kept


def _seek_back(part: BinaryIO, ends: int) -> int:
    """Put a part behind its line end number `ends`, counted from its end; how many more it would have taken."""
    at = part.seek(0, os.SEEK_END)
    while ends > 0 and at > 0:
        begin = max(0, at - CHUNK_BYTES)
        part.seek(begin)
        block = part.read(at - begin)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            ends -= 1
            if ends == 0:
                part.seek(begin + place + 1)
                return 0
        at = begin
    part.seek(at)
    return ends


def _last_byte(parts: Sequence[BinaryIO]) -> bytes:
    for part in reversed(parts):
        if size := part.seek(0, os.SEEK_END):
            part.seek(size - 1)
            return part.read(1)
    return b""


def _opened(path: Path) -> list[BinaryIO]:
    """All parts, oldest first. A rotation meanwhile shows a part twice or not at all; then it is looked at again."""
    for _ in range(5):
        parts = _opened_once(path)
        identities = [os.fstat(part.fileno()).st_ino for part in parts]
        if len(set(identities)) == len(identities) and (not parts or _is(path, os.fstat(parts[-1].fileno()))):
            return parts
        if not path.exists():
            return parts  # rotated, and nothing written since
        for part in parts:
            part.close()
    return _opened_once(path)[-1:]


def _opened_once(path: Path) -> list[BinaryIO]:
    parts: list[BinaryIO] = []
    for number in range(_PARTS_MAX):
        try:
            parts.append(open(path if number == 0 else path.with_name(f"{path.name}.{number}"), "rb"))  # noqa: SIM115
        except OSError:
            if number > 0:
                break
    parts.reverse()
    return parts


def _is(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False
