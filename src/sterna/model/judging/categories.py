"""The categories of SpeCon as a table. The tests walk it and the documentation shows it; every pair is in it.

What a check is a sign of is for `rules.py`.
"""

from collections.abc import Mapping
from enum import StrEnum

from sterna.model.growth import Category


class Sign(StrEnum):
    """What one check says about growth."""

    GROWING = "growing"
    SLOWING = "slowing"  # it does not grow as it should, but that could still be chance
    SETTLING = "settling"  # it does not grow as it should, and that is no chance


TRANSITIONS: Mapping[tuple[Category, Sign], Category] = {
    (Category.PROGRESSING, Sign.GROWING): Category.PROGRESSING,
    (Category.PROGRESSING, Sign.SLOWING): Category.WATCHING,
    (Category.PROGRESSING, Sign.SETTLING): Category.WATCHING,  # never from one check alone
    (Category.WATCHING, Sign.GROWING): Category.PROGRESSING,
    (Category.WATCHING, Sign.SLOWING): Category.WATCHING,
    (Category.WATCHING, Sign.SETTLING): Category.CONVERGED,
    (Category.CONVERGED, Sign.GROWING): Category.PROGRESSING,  # a new learning rate, new data: it recovers at once
    (Category.CONVERGED, Sign.SLOWING): Category.CONVERGED,
    (Category.CONVERGED, Sign.SETTLING): Category.CONVERGED,
}
