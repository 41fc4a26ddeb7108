"""Files of lines that take turns: so many, each so long at most, each with the same opening line.

A file is never written again once another one was begun, and never by two processes: a number that is taken is passed
over. Each file can be read without any other.
"""

import os
from pathlib import Path

_NAMES = "decisions-*.jsonl"


def files_in(directory: Path) -> list[Path]:
    """In the order in which they were written."""
    return sorted(directory.glob(_NAMES), key=_number)


class RotatingFiles:
    """One writer. `write` raises OSError; what it wrote of a line by then is taken back."""

    def __init__(self, directory: Path, *, bytes_max: int, files_max: int) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file: int | None = None  # a descriptor. None: the next line begins a file
        self._path = directory
        self._head = b""
        self._size = 0

    def fits(self, head: bytes, line: bytes) -> bool:
        """Can any file hold it? What does not fit would make files longer than they may be."""
        return len(head) + len(line) <= self._bytes_max

    def write(self, head: bytes, line: bytes) -> None:
        """Append a line that fits, in a file that opens with `head`."""
        if self._file is None or head != self._head or self._size + len(line) > self._bytes_max:
            self._begin(head)
        self._append(line)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self, head: bytes) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        number = max(map(_number, files_in(self._directory)), default=0)
        while self._file is None:
            number += 1
            self._path = self._directory / f"decisions-{number:06d}.jsonl"
            try:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue  # another process was faster
        self._size, self._head = 0, head
        self._append(head)
        for old in files_in(self._directory)[: -self._files_max]:
            old.unlink(missing_ok=True)  # only now: a full disk must not take the old ones away for nothing

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            self._take_back()
            raise
        self._size += len(line)

    def _take_back(self) -> None:
        """A line that is cut short must not be followed by another one: the next one begins a file."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._size)
            if self._size <= len(self._head):
                self._path.unlink(missing_ok=True)
        finally:
            self.close()


def _number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0
