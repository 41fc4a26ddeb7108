"""The training log that rank 0 appends to once per epoch, as Voda's training side writes it.

Columns are found by name and may stand in any order; others are ignored. Rows that are not complete (a value is
missing or NA, the last line was cut short, the header was written again after a restart) are skipped, because a log
that a program is still writing to is the normal case. A row that is complete and makes no sense is an error.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import NamedTuple

from sterna.model.epochs import Epoch
from sterna.model.errors import InvalidRequest

_COLUMNS = ("epoch", "workers", "start_time", "epoch_time_sec", "step_time_sec")
_ABSENT = frozenset({"", "na", "n/a", "nan", "none", "null"})


class EpochLog(NamedTuple):
    epochs: tuple[Epoch, ...]
    epochs_total: int | None  # None: the log does not say


def read_epochs(text: str) -> EpochLog:
    """The complete rows, in order. None at all is no error: the job may just have begun."""
    epochs: list[Epoch] = []
    total: int | None = None
    for line, row in _complete_rows(text):
        epochs.append(_epoch(line, row))
        if not _absent(row.get("total_epochs")):
            total = _whole(line, row, "total_epochs")
    return EpochLog(tuple(epochs), total)


def _complete_rows(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        header = reader.fieldnames or ()
        if absent := [column for column in _COLUMNS if column not in header]:
            raise InvalidRequest(field="epoch log: header", value=header, expected=f"columns {', '.join(absent)}")
        for row in reader:
            if row["epoch"] != "epoch" and not any(_absent(row[column]) for column in _COLUMNS):
                yield reader.line_num, row
    except csv.Error as error:
        raise InvalidRequest(field=f"epoch log: line {reader.line_num}", value=str(error), expected="CSV") from None


def _absent(cell: str | None) -> bool:
    return cell is None or cell.strip().lower() in _ABSENT


def _epoch(line: int, row: Mapping[str, str]) -> Epoch:
    return Epoch(
        number=_whole(line, row, "epoch"),
        workers=_whole(line, row, "workers", at_least=1),
        started_s=_moment(line, row, "start_time"),
        took_s=_seconds(line, row, "epoch_time_sec"),
        step_s=_seconds(line, row, "step_time_sec"),
    )


def _whole(line: int, row: Mapping[str, str], column: str, at_least: int = 0) -> int:
    try:
        number = float(row[column])  # some frameworks log whole numbers as 3.0
    except ValueError:
        number = -1.0
    if not (at_least <= number <= 1e9 and number.is_integer()):
        raise _refusal(line, row, column, f"a whole number of {at_least} or more")
    return int(number)


def _seconds(line: int, row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number > 0):
        raise _refusal(line, row, column, "seconds above 0")
    return number


def _moment(line: int, row: Mapping[str, str], column: str) -> float:
    """A full second is written without a fraction; where there is no zone, UTC is assumed."""
    try:
        moment = datetime.fromisoformat(row[column].strip())
    except ValueError:
        raise _refusal(line, row, column, "a time like 2022-01-31 13:05:59.123456") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _refusal(line: int, row: Mapping[str, str], column: str, expected: str) -> InvalidRequest:
    return InvalidRequest(field=f"epoch log: line {line}, {column}", value=row[column], expected=expected)
