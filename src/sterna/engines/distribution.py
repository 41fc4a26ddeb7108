"""SpeCon's `distribution.csv`: what rebalancers looked at, one line each, with an empty target where nothing was moved.

    time,job,orginal_node,to_node
    1578177799.674656,job1,node-1,node-3
    1578177802.5349672,job2,node-1,

The columns are SpeCon's, its spelling included, so that scripts made for its file read ours. The file only grows, until
it is too long: then it becomes `distribution.csv.1` and another one begins. A line that a power cut left unfinished is
taken away before the next one is written.
"""

import csv
import io
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from sterna.model.considering import ConsideredMove

log = logging.getLogger(__name__)

COLUMNS = ("time", "job", "orginal_node", "to_node")  # sic
BYTES_MAX = 64 << 20

Row = tuple[str, str, str, str]

_TAIL = 1 << 16  # bytes; no line is that long


def rows_of(at_s: float, considered: Iterable[ConsideredMove]) -> list[Row]:
    """In the order in which they were looked at. `at_s` is seconds since 1970, or of a simulation's clock."""
    return [(repr(float(at_s)), move.job_id, move.worker.node, move.to or "") for move in considered]


def text_of(rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


class DistributionFile:
    """One writer at a time. A failed write is logged once and does no harm: a record must not stop a scheduler."""

    def __init__(self, path: Path, *, bytes_max: int = BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._is_whole = False  # was the end of what was there before looked at?
        self._trouble = ""

    def write(self, at_s: float, considered: Iterable[ConsideredMove]) -> bool:
        """Append the rows of one round. False: they could not be written."""
        text = text_of(rows_of(at_s, considered))
        if not text:
            return True
        try:
            self._append(text.encode())
        except OSError as error:
            self._is_whole = False  # whatever part of it was written
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.error("the distribution file cannot be written", extra={"path": self._path, "why": str(error)})
            return False
        self._trouble = ""
        return True

    def _append(self, lines: bytes) -> None:
        if not self._is_whole:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _take_away_unfinished_line(self._path)
            self._is_whole = True
        size = self._path.stat().st_size if self._path.exists() else 0
        header = text_of([COLUMNS]).encode()
        if size > len(header) and size + len(lines) > self._bytes_max:
            os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))
            size = 0
        with self._path.open("ab", buffering=0) as file:
            left = memoryview(lines if size else header + lines)
            while left:
                left = left[file.write(left) :]


def _take_away_unfinished_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - _TAIL)
        file.seek(start)
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(start + tail.rfind(b"\n") + 1)
