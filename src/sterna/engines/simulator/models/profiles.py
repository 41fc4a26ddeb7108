"""Measured speed and statistics of one application on one GPU type: the profile files of Pollux and Sia.

Facts and how to read between them, nothing about any one job: that is `profiled.py`. A profile is three kinds of file:
`placements.csv` (seconds per step for placements of up to four nodes), `scalability.csv` (the same for many nodes) and
one `validation-<batch>.csv` a batch size (per epoch: progress, iterations, gradient statistics).
"""

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sterna.model.errors import InvalidRequest

Placement = tuple[int, ...]  # workers on each node, in the order of the worker list

TIMES = ("local_bsz", "step_time", "sync_time")
NODES_MEASURED = 16  # beyond so many nodes nothing was measured; more are read as this many


class StepTime(NamedTuple):
    step_s: float  # one step, synchronisation included
    sync_s: float  # of which synchronisation


class Epochs(NamedTuple):
    """One validated batch size, a value an epoch."""

    progress: tuple[float, ...]  # at the end of each epoch
    iteration: tuple[float, ...]  # at the end of each epoch
    grad_sqr: tuple[float, ...]  # during it
    grad_var: tuple[float, ...]


class Measured(NamedTuple):
    nodes: int
    replicas: int
    local_batch: float
    step_s: float
    sync_s: float


class Profile:
    """Answers are memoised, because a simulation asks the same few questions at every round."""

    def __init__(
        self,
        placements: Iterable[tuple[str, Measured]],
        scalability: Iterable[Measured],
        validation: Mapping[int, Epochs],
        *,
        local_batch_max: int | None = None,
    ) -> None:
        self._by_placement: dict[str, list[Measured]] = {}
        for digits, row in placements:
            self._by_placement.setdefault(digits, []).append(row)
        for rows in self._by_placement.values():
            rows.sort(key=lambda row: row.local_batch)
        self._scalability = list(scalability)
        self._validation = dict(sorted(validation.items()))
        self._batches = list(self._validation)
        local = [int(row.local_batch) for rows in self._by_placement.values() for row in rows]
        self.local_batch_min = min(local)
        self.local_batch_max = local_batch_max or max(local)
        self.batch_min, self.batch_max = self._batches[0], self._batches[-1]
        self.epochs = min(len(epochs.progress) for epochs in self._validation.values())
        self.boundaries = self._boundaries()
        self.replicas_max = max(row.replicas for row in self._all_rows())
        self._step_times: dict[tuple[Placement, int], StepTime] = {}
        self._statistics: dict[tuple[int, int], tuple[float, float]] = {}
        self._surface: tuple[Any, list[Measured]] | None = None  # built when an unmeasured placement is asked for

    def step_time(self, placement: Placement, local_batch: int) -> StepTime:
        """Seconds per step with so many workers on each node and so large a batch on each worker."""
        key = (placement, local_batch)
        known = self._step_times.get(key)
        if known is None:
            rows = self._by_placement.get(_digits(placement), ())
            known = _between(rows, local_batch) if rows else self._on_surface(placement, local_batch)
            self._step_times[key] = known
        return known

    def statistics(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient during an epoch, linear between validated batch sizes."""
        key = (batch, epoch)
        known = self._statistics.get(key)
        if known is None:
            sqr = self._between_batches(batch, lambda epochs: epochs.grad_sqr[epoch])
            var = self._between_batches(batch, lambda epochs: epochs.grad_var[epoch])
            known = self._statistics[key] = (sqr, var)
        return known

    def iterations_done(self, batch: int, epoch: int) -> float:
        """Iterations at the end of an epoch (counted from 0) if all of it is trained with this batch size."""
        return self._between_batches(batch, lambda epochs: epochs.iteration[epoch])

    def _between_batches(self, batch: int, value: Any) -> float:
        batch = min(max(batch, self.batch_min), self.batch_max)
        above = bisect_right(self._batches, batch)
        low = self._batches[above - 1]
        at_low = float(value(self._validation[low]))
        if low == batch:
            return at_low
        high = self._batches[above]
        return ((batch - low) * float(value(self._validation[high])) + (high - batch) * at_low) / (high - low)

    def _boundaries(self) -> tuple[float, ...]:
        """Progress at which epoch 0, 1, ... begins: the earliest of all validated batch sizes."""
        ends = (min(epochs.progress[row] for epochs in self._validation.values()) for row in range(self.epochs))
        return (0.0, *ends)

    def _all_rows(self) -> list[Measured]:
        return [row for rows in self._by_placement.values() for row in rows] + self._scalability

    def _on_surface(self, placement: Placement, local_batch: int) -> StepTime:
        """Linear over (nodes, replicas, local batch); outside of what was measured, the nearest measurement."""
        if self._surface is None:
            rows = _means(row for rows in self._by_placement.values() for row in rows) + self._scalability
            points = np.array([row[:3] for row in rows], dtype=float)
            from scipy.interpolate import LinearNDInterpolator  # here, as it takes a second to import

            self._surface = (LinearNDInterpolator(points, np.array([row[3:] for row in rows])), rows)
        surface, rows = self._surface
        point = (min(len(placement), NODES_MEASURED), sum(placement), local_batch)
        step_s, sync_s = (float(value) for value in surface([point])[0])
        if math.isnan(step_s):
            nearest = min(rows, key=lambda row: (sum((a - b) ** 2 for a, b in zip(row[:3], point, strict=True)), row))
            return StepTime(nearest.step_s, nearest.sync_s)
        return StepTime(step_s, sync_s)


def read_profile(directory: Path, *, accelerator: str = "", local_batch_max: int | None = None) -> Profile:
    """The profile in a directory; with an accelerator, from the files `placements-<accelerator>.csv` and so on."""
    suffix = f"-{accelerator}.csv" if accelerator else ".csv"
    placements = _table(directory / f"placements{suffix}", "placement", *TIMES)
    scalability = _table(directory / f"scalability{suffix}", "num_nodes", "num_replicas", *TIMES)
    validation = {_batch_of(path): _epochs(path) for path in directory.glob("validation-*.csv")}
    if not validation:
        raise InvalidRequest(field="profiles", value=str(directory), expected="files named validation-<batch>.csv")
    return Profile(
        [(str(int(row[0])), _placed(str(int(row[0])), row[1:])) for row in placements],
        [Measured(int(row[0]), int(row[1]), *row[2:]) for row in scalability],
        validation,
        local_batch_max=local_batch_max,
    )


def _digits(placement: Placement) -> str:
    """How the files name a placement: its smallest rotation, a digit a node. Empty where a node holds ten or more."""
    if max(placement) > 9:
        return ""
    return "".join(map(str, min(placement[start:] + placement[:start] for start in range(len(placement)))))


def _between(rows: Sequence[Measured], local_batch: float) -> StepTime:
    """Linear over the local batch; beyond either end, that end."""
    above = bisect_right(rows, local_batch, key=lambda row: row.local_batch)
    if above in (0, len(rows)):
        end = rows[min(above, len(rows) - 1)]
        return StepTime(end.step_s, end.sync_s)
    low, high = rows[above - 1], rows[above]
    along, width = local_batch - low.local_batch, high.local_batch - low.local_batch
    return StepTime(
        (high.step_s - low.step_s) / width * along + low.step_s,
        (high.sync_s - low.sync_s) / width * along + low.sync_s,
    )


def _means(rows: Iterable[Measured]) -> list[Measured]:
    """One row for all placements that agree in nodes, replicas and local batch, in that order."""
    groups: dict[tuple[int, int, float], list[Measured]] = {}
    for row in rows:
        groups.setdefault(row[:3], []).append(row)
    return [
        Measured(
            *key,
            math.fsum(row.step_s for row in group) / len(group),
            math.fsum(row.sync_s for row in group) / len(group),
        )
        for key, group in sorted(groups.items())
    ]


def _placed(digits: str, times: Sequence[float]) -> Measured:
    return Measured(len(digits), sum(map(int, digits)), *times)


def _epochs(path: Path) -> Epochs:
    return Epochs(*zip(*_table(path, "progress", "iteration", "grad_sqr", "grad_var"), strict=True))


def _batch_of(path: Path) -> int:
    try:
        return int(path.stem.removeprefix("validation-"))
    except ValueError:
        raise InvalidRequest(field="profiles", value=str(path), expected="a name like validation-128.csv") from None


def _table(path: Path, *columns: str) -> list[tuple[float, ...]]:
    """These columns of a CSV file of numbers, a tuple for each row."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            rows = [tuple(float(row[column]) for column in columns) for row in csv.DictReader(lines)]
    except OSError as error:
        raise InvalidRequest(field="profiles", value=str(path), expected="a profile file that can be read") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InvalidRequest(field="profiles", value=str(path), expected=f"numbers: {', '.join(columns)}") from error
    if not rows or not all(0 <= value < math.inf for row in rows for value in row):
        expected = f"at least one row, and finite numbers of 0 or more: {', '.join(columns)}"
        raise InvalidRequest(field="profiles", value=str(path), expected=expected)
    return rows
