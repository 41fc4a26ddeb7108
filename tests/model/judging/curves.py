"""Curves that jobs report, and how a judge took one: what all tests of judging are made of."""

import math
from collections.abc import Iterable, Sequence

from sterna.model.growth import Category
from sterna.model.judging import Judge, Judged


def saturating(checks: int, *, rate: float = 1 / 8) -> list[float]:
    """An accuracy that approaches 1: what it gains in a check falls by the same factor every time."""
    return [1 - math.exp(-rate * check) for check in range(checks)]


def after(judge: Judge, values: Iterable[float], *, every_s: float = 10.0, start_s: float = 0.0) -> Judged:
    judged = Judged.fresh(judge)
    for number, value in enumerate(values):
        judged = judged.seen(start_s + number * every_s, value)
    return judged


def categories(judge: Judge, values: Iterable[float], *, every_s: float = 10.0) -> list[Category]:
    """The category after each value."""
    judged, found = Judged.fresh(judge), []
    for number, value in enumerate(values):
        judged = judged.seen(number * every_s, value)
        found.append(judged.growth.category)
    return found


def scores(judge: Judge, values: Iterable[float], *, every_s: float = 10.0) -> list[float | None]:
    judged, found = Judged.fresh(judge), []
    for number, value in enumerate(values):
        judged = judged.seen(number * every_s, value)
        found.append(judged.growth.score)
    return found


def changes(found: Sequence[Category]) -> str:
    """The categories one after another, by their first letters, without repetitions: `PWC`."""
    return "".join(
        category[0] for number, category in enumerate(found) if number == 0 or category is not found[number - 1]
    )


def growing_by(*gains: float) -> list[float]:
    """Values whose changes are `gains`: from 0 on."""
    values = [0.0]
    for gain in gains:
        values.append(values[-1] + gain)
    return values
