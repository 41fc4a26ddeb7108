"""The cells of one row, by column, parsed strictly: a hole, a text where a number should be, NaN, or a value out of
range is an `InvalidRequest` that names the column.
"""

import math
from collections.abc import Mapping, Sequence

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId

WORKERS_LIMIT = 65_536  # of one job: curves are as long as the largest size, and a typo must not fill the memory
WHOLE_LIMIT = 2**62
SECONDS_LIMIT = 1e12  # some 30,000 years: beyond it, sums of seconds lose fractions


class Cells:
    """One object serves all rows of a file, because a trace has a hundred thousand of them."""

    __slots__ = ("_columns", "_values", "job_id", "line")

    def __init__(self, columns: Mapping[str, int]) -> None:
        self._columns = columns
        self._values: Sequence[str] = ()
        self.job_id = JobId("")
        self.line = 0

    def load(self, values: Sequence[str], *, number: int, line: int) -> None:
        """Take up the next row: its number among the rows, and the line it ends on."""
        if len(values) != len(self._columns):
            expected = f"{len(self._columns)} cells, as in the header"
            raise InvalidRequest(field="row", value=f"{len(values)} cells", expected=expected)
        self._values = values
        self.job_id = JobId(f"job-{number:06}")
        self.line = line

    def has(self, column: str) -> bool:
        """Does this row say anything there?"""
        position = self._columns.get(column)
        return position is not None and bool(self._values[position].strip())

    def text(self, column: str) -> str:
        """What stands there; empty if nothing does, or if there is no such column."""
        position = self._columns.get(column)
        return "" if position is None else self._values[position].strip()

    def number(self, column: str, *, at_least: float = 0.0, at_most: float = math.inf) -> float:
        text = self._values[self._columns[column]]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if at_least <= value <= at_most and value != math.inf:  # NaN is never between anything
            return value
        raise InvalidRequest(field=column, value=text, expected=_range("a number", at_least, at_most))

    def whole(self, column: str, *, at_least: int = 0, at_most: int = WHOLE_LIMIT) -> int:
        text = self._values[self._columns[column]]
        value = _whole(text)
        if value is not None and at_least <= value <= at_most:
            return value
        raise InvalidRequest(field=column, value=text, expected=_range("a whole number", at_least, at_most))

    def seconds(self, column: str, *, per_s: float = 1.0) -> float:
        """A moment or a length of time; `per_s` says how many of the column's units make a second."""
        return self.number(column, at_most=SECONDS_LIMIT * per_s) / per_s

    def workers(self, column: str) -> int:
        return self.whole(column, at_least=1, at_most=WORKERS_LIMIT)


def _whole(text: str) -> int | None:
    """Also "4.0", as spreadsheets write it. None: this is no whole number."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def _range(what: str, at_least: float, at_most: float) -> str:
    if at_most >= WHOLE_LIMIT:
        return f"{what}, at least {at_least:g}"
    return f"{what} from {at_least:g} to {at_most:g}"
