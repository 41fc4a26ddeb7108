"""Models for traces that tell a duration and nothing of speed: fixed, linear and Amdahl's law.

`fixed` is the model of Tiresias' simulator: a job runs for its duration at its request, and at no other size. The other
two let any trace be run elastically: work is what the duration at the request amounts to on a single worker.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.models.row_specs import SIZING_DOC, BuildJob, Sizing, Sources, known, spec_of
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.trace import TraceRow
from sterna.policies.options import NoOptions, option

STRETCH_DOC = "a job may grow to this many times its request, where the trace states no bounds of its own"
CROSSING_DOC = "how much longer each unit of work takes for every node beyond the first; 0.1 is a tenth"


@dataclass(frozen=True, slots=True)
class LinearOptions:
    sizing: Sizing = option(Sizing.MODEL, SIZING_DOC)
    stretch: float = option(2.0, STRETCH_DOC, at_least=1)
    crossing: float = option(0.0, CROSSING_DOC, at_least=0)


@dataclass(frozen=True, slots=True)
class AmdahlOptions:
    sizing: Sizing = option(Sizing.MODEL, SIZING_DOC)
    stretch: float = option(2.0, STRETCH_DOC, at_least=1)
    crossing: float = option(0.0, CROSSING_DOC, at_least=0)
    serial: float = option(
        0.05, "the part of the work that more workers do not speed up, if a row names none", at_least=0
    )


def fixed(options: NoOptions, sources: Sources) -> BuildJob:
    flat = SpeedupCurve.flat()

    def build(row: TraceRow) -> SimulatedJob:
        seconds = known(row.duration_s, field="duration", model="fixed")
        spec = spec_of(row, workers_min=row.workers, workers_max=row.workers)
        return SimulatedJob(spec, PacedTraining(seconds, flat))

    return build


def linear(options: LinearOptions, sources: Sources) -> BuildJob:
    _check_stretch(options.stretch)

    def build(row: TraceRow) -> SimulatedJob:
        return _elastic(row, options, serial=0.0, model="linear")

    return build


def amdahl(options: AmdahlOptions, sources: Sources) -> BuildJob:
    _check_stretch(options.stretch)
    if options.serial > 1:
        raise InvalidRequest(field="model amdahl: serial", value=options.serial, expected="a fraction from 0 to 1")

    def build(row: TraceRow) -> SimulatedJob:
        serial = options.serial if row.serial_fraction is None else row.serial_fraction
        return _elastic(row, options, serial=serial, model="amdahl")

    return build


@lru_cache(maxsize=4096)
def amdahl_curve(workers_max: int, *, serial: float) -> SpeedupCurve:
    """Seconds for a second's worth of single-worker work, at 1, 2, ... workers."""
    return SpeedupCurve(tuple(serial + (1.0 - serial) / workers for workers in range(1, workers_max + 1)))


def _elastic(row: TraceRow, options: LinearOptions | AmdahlOptions, *, serial: float, model: str) -> SimulatedJob:
    seconds = known(row.duration_s, field="duration", model=model)
    least, most = row.workers, row.workers
    if options.sizing is Sizing.MODEL:
        least = 1 if row.workers_min is None else row.workers_min
        most = math.ceil(row.workers * options.stretch) if row.workers_max is None else row.workers_max
    curve = amdahl_curve(max(most, row.workers), serial=serial)
    training = PacedTraining(seconds / curve.unit_s(row.workers), curve, crossing=options.crossing)
    return SimulatedJob(spec_of(row, workers_min=least, workers_max=most), training)


def _check_stretch(stretch: float) -> None:
    if stretch > 1000:  # curves are as long as the largest size
        raise InvalidRequest(field="stretch", value=stretch, expected="at most 1000")
