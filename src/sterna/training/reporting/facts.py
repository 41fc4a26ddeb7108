"""How far a program has come, as everybody is told who wants to know."""

from typing import NamedTuple


class Facts(NamedTuple):
    """How far training is. None: not known."""

    step: int | None = None
    epoch: int | None = None
    units_done: float | None = None
    units_total: float | None = None
    step_s: float | None = None
    workers: int | None = None
