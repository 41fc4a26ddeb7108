"""A linear tournament that is held again and again, each time after the last winner changed or left.

The first in the list is the candidate and meets the others in order; one that beats the candidate takes its place. Such
a rule need not be transitive, so no heap and no tree of winners can stand in for meeting the others in order. What can
be saved: the candidates before the winner met only entries that did not change, so a new run begins where the last
winner stood. And in a long list, the next one to beat the candidate is found by NumPy a stretch at a time.

What a duel is decided by is not known here: `afs_l.py` brings its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sterna.model.columns import Floats

Standing = tuple[float, float, float]  # what a duel looks at


class Duel(NamedTuple):
    """The rule of a duel, in two forms: as a loop for short lists, where a call per meeting would be the dearest part,
    and by column for long ones. Both must agree.
    """

    next_beater: Callable[[Sequence[Standing], int, Standing], int | None]  # the first from a position on, if any
    beaters: Callable[[Floats, Floats, Floats, Standing], npt.NDArray[np.bool_]]


class Tournament:
    """Positions are those in the list as it is now: when a winner leaves, all behind it move up by one."""

    def __init__(self, duel: Duel, standings: Sequence[Standing], *, long_from: int = 96) -> None:
        self._duel = duel
        self._standings = list(standings)
        self._columns: list[Floats] = []  # the same by column, if the list is long
        if len(self._standings) >= long_from:
            self._columns = [np.array(column) for column in zip(*self._standings, strict=True)]
        self._candidates: list[int] = []  # positions, each beaten by the next; the last is the winner
        self._hold(0)

    @property
    def winner(self) -> int:
        return self._candidates[-1]

    def replace_winner(self, standing: Standing) -> None:
        position = self._candidates.pop()
        self._standings[position] = standing
        for column, value in zip(self._columns, standing, strict=False):  # no columns, if the list is short
            column[position] = value
        self._hold(position)

    def drop_winner(self) -> None:
        position = self._candidates.pop()
        del self._standings[position]
        for number, column in enumerate(self._columns):
            column[position:-1] = column[position + 1 :]
            self._columns[number] = column[:-1]
        self._hold(position)

    def _hold(self, start: int) -> None:
        """Let the last candidate meet all entries from `start` on, and one that beats it the rest."""
        candidates = self._candidates
        if not candidates:
            if not self._standings:
                return
            candidates.append(0)
            start = 1
        while (beater := self._next_beater(start)) is not None:
            candidates.append(beater)
            start = beater + 1

    def _next_beater(self, start: int) -> int | None:
        candidate = self._standings[self._candidates[-1]]
        if not self._columns:
            return self._duel.next_beater(self._standings, start, candidate)
        firsts, seconds, thirds = self._columns
        stretch, end = 512, len(firsts)  # short at first, because most candidates are beaten soon
        while start < end:
            stop = start + stretch
            beaten = self._duel.beaters(firsts[start:stop], seconds[start:stop], thirds[start:stop], candidate)
            found = int(beaten.argmax())
            if beaten[found]:
                return start + found
            start, stretch = stop, stretch * 4
        return None
