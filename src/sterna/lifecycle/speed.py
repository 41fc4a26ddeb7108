"""How fast a job trains, measured from how far it says it has come. Pure, and the same in every engine.

A measurement is a stretch in which the same workers trained: it begins anew when they change, or when the job went
back to a checkpoint.
"""

from typing import NamedTuple

from sterna.model.jobs import ProgressPoint
from sterna.model.learning import UNIT_S_MAX, UNIT_S_MIN

MEASURE_S = 2.0  # shorter stretches are mostly noise
POINTS_KEPT = 50

Points = tuple[ProgressPoint, ...]


class Mark(NamedTuple):
    """How far a job was when."""

    units: float
    at_s: float
    workers: int
    speaker: str  # that said so: what another process says is another measurement


def measured(began: Mark | None, here: Mark) -> tuple[Mark, float | None]:
    """Where the measurement under way begins, and how long a unit took in the one that ends here.

    None: it goes on, or its speed cannot be meant.
    """
    if began is None or began[2:] != here[2:] or here.units < began.units:
        return here, None
    units, took_s = here.units - began.units, here.at_s - began.at_s
    if units <= 0 or took_s < MEASURE_S:
        return began, None
    return here, plausible(took_s / units)


def plausible(unit_s: float | None) -> float | None:
    """The time that a unit took. None: it was not told, or nothing that can be meant."""
    return unit_s if unit_s is not None and UNIT_S_MIN <= unit_s <= UNIT_S_MAX else None


def with_point(points: Points, point: ProgressPoint) -> Points:
    """The latest measurements, with one more."""
    return (*points, point)[-POINTS_KEPT:]
