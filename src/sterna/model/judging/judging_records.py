"""Reading back what an engine stored: numbers and lists of numbers, checked one by one. Knows nothing of their meaning.

A record may be old, from another configuration, or edited by hand: anything wrong with it is an `UnreadableRecord`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

Record: TypeAlias = dict[str, float | list[float]]


class UnreadableRecord(ValueError):
    """Never leaves judging: the reader of such a record starts afresh instead."""


def known(number: float | None) -> list[float]:
    """A number that may be unknown: a list of one or of none, because a record has no null."""
    return [] if number is None else [number]


class Reader:
    def __init__(self, record: Mapping[str, object]) -> None:
        self._record = record

    def number(self, key: str, *, most: float, least: float | None = None) -> float:
        return _number(self._record.get(key), most=most, least=-most if least is None else least)

    def number_or_none(self, key: str, *, most: float) -> float | None:
        """What `known` wrote."""
        rows = list(self.rows(key, most=(most,), rows_max=1))
        return rows[0][0] if rows else None

    def count(self, key: str) -> int:
        number = self.number(key, most=1e15, least=0)
        if number != int(number):
            raise UnreadableRecord(key)
        return int(number)

    def rows(self, key: str, *, most: tuple[float, ...], rows_max: int) -> Iterable[tuple[float, ...]]:
        """A flat list cut into rows of as many numbers as `most` bounds; the last `rows_max` of them."""
        numbers, width = self._record.get(key), len(most)
        if not isinstance(numbers, list) or len(numbers) % width:
            raise UnreadableRecord(key)
        for start in range(max(0, len(numbers) - rows_max * width), len(numbers), width):
            row = numbers[start : start + width]
            yield tuple([_number(number, most=top, least=-top) for number, top in zip(row, most, strict=True)])


def _number(value: object, *, most: float, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableRecord(repr(value)[:40])
    if not least <= value <= most or not math.isfinite(value):  # the bounds first: a huge int has no float
        raise UnreadableRecord(repr(value)[:40])
    return float(value)
