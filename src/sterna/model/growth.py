"""How a job's evaluation value grows, as it was last judged: what rebalancers look at. Values only.

Judging is `model/judging/`; this file is what a snapshot carries of it.
"""

from enum import StrEnum
from typing import NamedTuple


class Category(StrEnum):
    PROGRESSING = "Progressing"  # also every job that has not been judged yet
    WATCHING = "Watching"
    CONVERGED = "Converged"


class Growth(NamedTuple):
    category: Category = Category.PROGRESSING
    score: float | None = None  # in the units of the judge's mode. None: fewer than two evaluations so far
    efficiency: float | None = None  # score per CPU used. None: the CPU was not measured
    since_s: float = 0.0  # when it came into this category
