"""Following a growing file: whole new lines, over rotation, truncation and pauses, in bounded pieces.

What comes faster than it is read is skipped, the oldest first: a monitor is after the latest numbers, not a log
collector. Lines are cut at a length, which also bounds what any regular expression is ever given.
"""

import os
import stat
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

LINE_BYTES_MAX = 4096
READ_BYTES_MAX = 256 * 1024  # at a time; what lies before is skipped


class Line(NamedTuple):
    text: str
    at_s: float | None  # as the container runtime wrote it; None: a plain file, which has no times


class Tail:
    """One file. `from_start` False: what is in it already is skipped."""

    def __init__(self, path: Path, *, from_start: bool, read_bytes_max: int = READ_BYTES_MAX) -> None:
        self._path = path
        self._read_bytes_max = read_bytes_max
        self._inode: int | None = None
        self._offset = 0
        self._rest = b""  # the beginning of a line whose end has not come
        self._amid = False  # of a line whose beginning was skipped
        if not from_start:
            self._skip_to_end()

    def new_lines(self) -> list[bytes]:
        """Complete lines since last time. What is gone, not there yet or no plain file has none."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block this
        except OSError:
            return []
        try:
            return self._read(descriptor)
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def _skip_to_end(self) -> None:
        try:
            state = os.stat(self._path)
        except OSError:
            return
        self._inode, self._offset = state.st_ino, state.st_size

    def _read(self, descriptor: int) -> list[bytes]:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            return []
        if state.st_ino != self._inode or state.st_size < self._offset:  # rotated, or truncated in place
            self._inode, self._offset, self._rest, self._amid = state.st_ino, 0, b"", False
        if state.st_size - self._offset > self._read_bytes_max:
            self._offset, self._rest, self._amid = state.st_size - self._read_bytes_max, b"", True
        data = os.pread(descriptor, self._read_bytes_max, self._offset)
        self._offset += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        if self._amid and lines:
            lines, self._amid = lines[1:], False
        self._rest = b"" if self._amid else rest[:LINE_BYTES_MAX]  # what a long line has beyond that is cut below
        return [line[:LINE_BYTES_MAX] for line in lines]


class ContainerLines:
    """Takes apart what container runtimes write: `<time> <stdout|stderr> <F|P> <text>`; P: the line goes on."""

    def __init__(self) -> None:
        self._part = b""

    def read(self, raw: bytes) -> Line | None:
        """None: the line goes on, or is not of that form."""
        time, _, rest = raw.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        flag, _, text = rest.partition(b" ")
        if stream not in (b"stdout", b"stderr") or not flag:
            return None
        whole = (self._part + text)[:LINE_BYTES_MAX]
        if flag.startswith(b"P"):
            self._part = whole
            return None
        self._part = b""
        return Line(whole.decode("utf-8", "replace"), _moment(time))


def _moment(time: bytes) -> float | None:
    try:
        moment = datetime.fromisoformat(time.decode("ascii"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
