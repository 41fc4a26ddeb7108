"""What the epochs of one job tell: means per worker count, speed-up, time spent and time left.

The arithmetic of Voda's metrics collector, as a pure function of the rows of a training log. Reading such a log is
`wire/epoch_csv.py`; a curve for counts that were never seen is `learning.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from typing import NamedTuple

from sterna.model.errors import InvalidRequest
from sterna.model.learning import ThroughputModel


class Epoch(NamedTuple):
    """One line of a training log."""

    number: int  # from 0; goes on counting after a restart
    workers: int
    started_s: float
    took_s: float
    step_s: float  # mean time of a step within it


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSummary:
    epoch_s: Mapping[int, float]  # mean by worker count, seen counts only; so are the next three
    step_s: Mapping[int, float]
    speedup: Mapping[int, float]  # as measured, so above the worker count if that is what was measured
    efficiency: Mapping[int, float]
    last_epoch: int
    remaining_epochs: int
    remaining_s: float  # with one worker
    elapsed_s: float  # from the start of the first epoch to the end of the last
    running_s: float  # within epochs
    waiting_s: float  # between them
    gpu_s: float


def summary_of(epochs: Sequence[Epoch], *, epochs_total: int) -> EpochSummary:
    """Add up a job's epochs, at least one. Where one worker was never seen, its pace is what the model expects."""
    if not epochs:
        raise InvalidRequest(field="epochs", value=0, expected="at least one complete row")
    by_count = {
        workers: list(rows)
        for workers, rows in groupby(sorted(epochs, key=lambda e: (e.workers, e.number)), key=lambda e: e.workers)
    }
    epoch_s = {workers: fsum(row.took_s for row in rows) / len(rows) for workers, rows in by_count.items()}
    alone_s = epoch_s.get(1) or model_of(epochs).curve(1).unit_s(1)
    first, last = epochs[0], epochs[-1]
    running_s = sum(row.took_s for row in epochs)
    elapsed_s = last.started_s - first.started_s + last.took_s
    remaining = max(0, epochs_total - last.number - 1)
    return EpochSummary(
        epoch_s=epoch_s,
        step_s={workers: fsum(row.step_s for row in rows) / len(rows) for workers, rows in by_count.items()},
        speedup={workers: alone_s / mean for workers, mean in epoch_s.items()},
        efficiency={workers: alone_s / mean / workers for workers, mean in epoch_s.items()},
        last_epoch=last.number,
        remaining_epochs=remaining,
        remaining_s=alone_s * remaining,
        elapsed_s=elapsed_s,
        running_s=running_s,
        waiting_s=elapsed_s - running_s,
        gpu_s=sum(row.took_s * row.workers for row in epochs),
    )


def model_of(epochs: Sequence[Epoch]) -> ThroughputModel:
    """What these epochs teach about speed."""
    model = ThroughputModel()
    for row in epochs:
        model = model.observed(row.workers, row.took_s)
    return model
