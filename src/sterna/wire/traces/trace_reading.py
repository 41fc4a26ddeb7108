"""Reading a trace, row by row. A bad row is reported and left out; a file without a single good one is refused."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sterna.model.errors import InvalidRequest
from sterna.model.trace import RowProblem, Trace, TraceRow
from sterna.wire.traces.cells import Cells
from sterna.wire.traces.formats import Format, format_named, format_of

ROWS_LIMIT = 1_000_000  # ids have six digits, and a longer trace would not be simulated in one piece
LINE_MAX = 1 << 20
PROBLEM_VALUE_LIMIT = 80  # a hostile cell must not flood a terminal


def read_trace(path: str | Path, format: str | None = None) -> Trace:  # noqa: A002  (it is the word users know)
    """The trace in this file; its format is told from its columns unless given."""
    path = Path(path)
    with opened(path, what="trace") as lines:
        return parse_trace(lines, name=path.stem, format=format)


def parse_trace(lines: Iterable[str], *, name: str, format: str | None = None) -> Trace:  # noqa: A002
    reader = csv.reader(lines)
    columns = header(reader, what="trace")
    chosen = format_of(columns) if format is None else format_named(format)
    missing = [column for column in chosen.columns if column not in columns]
    if missing:
        expected = f"the columns of {chosen.name}; missing: {', '.join(missing)}"
        raise InvalidRequest(field="trace: columns", value=", ".join(columns), expected=expected)
    rows, problems = _read_rows(reader, chosen, columns)
    if not rows:
        first = f"; the first problem is {problems[0].sentence}" if problems else ""
        raise InvalidRequest(field="trace", value=name, expected=f"at least one usable row{first}")
    return Trace(name, chosen.name, tuple(_from_zero(rows) if chosen.from_zero else rows), tuple(problems))


@contextmanager
def opened(path: Path, *, what: str, line_max: int = LINE_MAX) -> Iterator[Iterable[str]]:
    """The lines of a text file, longer ones in pieces. Bytes that are no text become marks that parse as nothing."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
            yield iter(partial(lines.readline, line_max), "")  # a file without line ends must not fill the memory
    except OSError as error:
        expected = f"a file that can be read ({error.strerror})"
        raise InvalidRequest(field=what, value=str(path), expected=expected) from error


def header(reader: Iterator[Sequence[str]], *, what: str) -> dict[str, int]:
    """Positions of the columns by name."""
    try:
        names = [name.strip() for name in next(reader)]
    except (StopIteration, csv.Error):
        raise InvalidRequest(field=what, value="", expected="a CSV file whose first line names its columns") from None
    columns = {name: position for position, name in enumerate(names)}
    if len(columns) != len(names):
        raise InvalidRequest(field=f"{what}: columns", value=", ".join(names), expected="each column once")
    return columns


def _read_rows(
    reader: Iterator[list[str]], chosen: Format, columns: dict[str, int]
) -> tuple[list[TraceRow], list[RowProblem]]:
    rows: list[TraceRow] = []
    problems: list[RowProblem] = []
    cells = Cells(columns)
    for number, line, values in _numbered(reader, problems):
        try:
            cells.load(values, number=number, line=line)
            rows.append(chosen.parse(cells))
        except InvalidRequest as error:
            problems.append(RowProblem(line, error.field, str(error.value)[:PROBLEM_VALUE_LIMIT], error.expected))
    return rows, problems


def _numbered(reader: Iterator[list[str]], problems: list[RowProblem]) -> Iterator[tuple[int, int, list[str]]]:
    """Rows that are not empty, with their numbers and lines; what is no CSV at all is put down and passed over.

    Bad rows have numbers too, so that a job's id leads back to its row.
    """
    number = 0
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.append(RowProblem(_line_of(reader), "row", "", f"a line of CSV ({error})"))
            values = []
            number += 1
        if number >= ROWS_LIMIT + (not values):
            raise InvalidRequest(field="trace: line", value=_line_of(reader), expected=f"at most {ROWS_LIMIT} rows")
        if values:
            yield number, _line_of(reader), values
            number += 1


def _line_of(reader: Iterator[list[str]]) -> int:
    return getattr(reader, "line_num", 0)


def _from_zero(rows: list[TraceRow]) -> list[TraceRow]:
    first_s = min(row.submitted_s for row in rows)
    return [
        row._replace(
            submitted_s=row.submitted_s - first_s,
            deadline_s=None if row.deadline_s is None else row.deadline_s - first_s,
        )
        for row in rows
    ]
