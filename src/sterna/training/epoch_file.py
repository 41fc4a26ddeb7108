"""The file behind an epoch log: what of it is whole, and how rows are added so that it stays so.

A row is there or it is not. What a killed process has left of its last line is cut off before the next one is written,
and an epoch that is there already is not written again.
"""

import contextlib
import csv
import fcntl
import io
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_BYTES_MAX = 64_000_000
_EPOCHS_MAX = 10**12
_FIRST = "epoch"


class Whole(NamedTuple):
    """The part of a file that can be relied on."""

    header: tuple[str, ...] = ()  # empty: there is none yet
    next_epoch: int = 0
    bytes: int = 0


def whole_part(path: Path) -> Whole:
    """Raises OSError if it cannot be read, or is something else altogether."""
    try:
        descriptor = _opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return Whole()
    with open(descriptor, "rb") as file:
        return _whole_part(file.read(_BYTES_MAX + 1))


def append(path: Path, rows: Mapping[int, Mapping[str, str]]) -> tuple[str, ...]:
    """Add those rows, by epoch, that are not there yet, and sync. Answers the columns that the file has.

    Raises OSError; the file then is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
    try:
        with contextlib.suppress(OSError):  # where there are no locks there is one rank 0 all the same, as a rule
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        whole = _whole_part(os.pread(descriptor, _BYTES_MAX + 1, 0))
        new = [rows[number] for number in sorted(rows) if number >= whole.next_epoch]
        header = whole.header or (_FIRST, *sorted({name for row in new for name in row} - {_FIRST}))
        os.ftruncate(descriptor, whole.bytes)
        try:
            _write(descriptor, _text(header, new, with_header=not whole.header), at=whole.bytes)
            os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, whole.bytes)
            raise
        return header
    finally:
        os.close(descriptor)


def _opened(path: Path, how: int) -> int:
    """Without waiting for the other end of a pipe."""
    descriptor = os.open(path, how | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError("it is not a regular file")


def _whole_part(content: bytes) -> Whole:
    """Up to the last line that is a row: a machine that lost power may even have left zeros where one should be."""
    if len(content) > _BYTES_MAX:
        raise OSError("it is too big for a log of epochs")
    lines = content.splitlines(keepends=True)
    header = _cells(lines[0]) if lines else ()
    if _FIRST not in header:
        if len(lines) > 1 or header or not _may_become_header(content):
            raise OSError("it is no log of epochs, and is left alone")
        return Whole()
    size = len(content)
    for line in reversed(lines[1:]):
        cells = _cells(line)
        number = dict(zip(header, cells, strict=False)).get(_FIRST, "")
        if len(cells) == len(header) and _is_whole_number(number):
            return Whole(header, int(float(number)) + 1, size)
        size -= len(line)
    return Whole(header, 0, len(lines[0]))


def _may_become_header(content: bytes) -> bool:
    text = content.rstrip(b"\0").decode(errors="replace")
    return text.startswith(_FIRST) or _FIRST.startswith(text)


def _cells(line: bytes) -> tuple[str, ...]:
    """None at all, if this line was not written to its end."""
    if not line.endswith(b"\n") or b"\0" in line:
        return ()
    with contextlib.suppress(csv.Error, UnicodeDecodeError):
        return tuple(next(csv.reader([line.decode()], strict=True), ()))
    return ()


def _is_whole_number(text: str) -> bool:
    try:
        return float(text).is_integer() and 0 <= float(text) <= _EPOCHS_MAX  # some frameworks count 3.0
    except ValueError:
        return False


def _write(descriptor: int, text: bytes, *, at: int) -> None:
    done = 0
    while done < len(text):
        done += os.pwrite(descriptor, text[done:], at + done)


def _text(header: tuple[str, ...], rows: Sequence[Mapping[str, str]], *, with_header: bool) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, header, restval="NA", extrasaction="ignore", lineterminator="\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
