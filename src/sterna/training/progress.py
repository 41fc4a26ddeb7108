"""How far training has come and how fast it goes: counted here, told to the engine, kept with every checkpoint."""

import math
import time
from collections.abc import Mapping
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import short
from sterna.training.data.sources import Position, Source
from sterna.training.errors import Mismatch

_COUNT_MAX = 10**18
_ABSENT = object()  # not the same as None: that is a total that is not counted
_NEWS = 0.1  # weight of the latest step in the running mean
_CHANCE = 3.0  # so many mean deviations of a step's time do not count as slower: one is less than a sigma


class Progress:
    """Durations are taken from the monotonic clock alone: what the wall clock says changes nothing here."""

    def __init__(self) -> None:
        self.step = 0  # steps since the job's very beginning, over all incarnations
        self.position = Position()
        self.order: Mapping[str, Any] = {}  # of the data that the position is in
        self.samples: int | None = None  # since the job's beginning; None: no order was declared
        self.units_total: int | None = None
        self.step_s: float | None = None
        self.first_step_mono_s: float | None = None
        self.last_step_mono_s: float | None = None
        self._pace = _Pace()
        self._mark_s: float | None = None  # when the step now under way began; None: there was a pause

    def began_step(self) -> bool:
        """A batch is handed out. Whether it is this process's first."""
        first = self.first_step_mono_s is None
        if self._mark_s is None:
            self._mark_s = time.monotonic()
        if first:
            self.first_step_mono_s = self._mark_s
        return first

    def did_step(self, source: Source) -> None:
        """The program came back for the next batch."""
        before, self.position = self.position, source.after(self.position)
        if self.position.samples:
            self.samples = (self.samples or 0) + self.position.samples - before.samples
        self.counted_step()

    def counted_step(self) -> None:
        """A step is done: count it, and learn how long it took."""
        now_s = time.monotonic()
        self.step += 1
        self.last_step_mono_s = now_s
        if self._mark_s is not None:
            took_s = now_s - self._mark_s
            self.step_s = took_s if self.step_s is None else self.step_s + _NEWS * (took_s - self.step_s)
            self._pace.took(took_s)
        self._mark_s = now_s  # loading the next batch is part of the next step

    def beside_save(self) -> None:
        """From the next step on a save is under way."""
        self._pace.begin()

    def slowed_down_s(self) -> float:
        """The save is done: how much longer the steps beside it took, in all, than they do alone."""
        return self._pace.end()

    def paused(self) -> None:
        """What passed since the last step was not training."""
        self._mark_s = None

    def entered(self, source: Source, epochs: int | None) -> None:
        """Walking through `source` begins at the present position, up to `epochs` in all."""
        self.order = source.described()
        here, each = source.left(self.position), source.left(Position(self.position.epoch + 1))
        if epochs is None or here is None or each is None:
            self.units_total = None
        else:
            after = epochs - self.position.epoch - 1
            self.units_total = self.step + (here + after * each if after >= 0 else 0)

    def counts(self) -> dict[str, Any]:
        """How far training is and how fast, as the engine, the monitor and Trainer are told."""
        return {
            "step": self.step,
            "epoch": self.position.epoch,
            "units_done": float(self.step),
            "units_total": None if self.units_total is None else float(self.units_total),
            "step_s": self.step_s,
        }

    def about(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {
            "epoch": self.position.epoch,
            "batches": self.position.batches,
            "samples": self.position.samples,
            "samples_total": self.samples,
            "order": dict(self.order),
        }

    def restore(self, step: int, about: Mapping[str, Any]) -> None:
        """Raises Mismatch if `about` was written by something else."""
        self.position, self.samples, self.order = position_in(about)
        self.step = step


def position_in(about: Mapping[str, Any]) -> tuple[Position, int | None, Mapping[str, Any]]:
    """Position, samples since the job's beginning, and the data's order, as `Progress.about` gave them.

    Raises Mismatch if `about` was written by something else.
    """
    counts: list[Any] = [about.get(name) for name in ("epoch", "batches", "samples")]
    total, order = about.get("samples_total", _ABSENT), about.get("order")
    if not all(_is_count(count) for count in (*counts, *(() if total is None else (total,)))):
        raise Mismatch(f"the checkpoint does not say where in the data it was made: {short([*counts, total])}")
    if not isinstance(order, Mapping):
        raise Mismatch(f"the checkpoint does not say in which order its data came: {short(order)}")
    return Position(*counts), total, dict(order)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _COUNT_MAX


class _Pace:
    """How long steps take alone, how much they differ by chance, and what those beside a save took more than that."""

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._spread_s = 0.0  # mean deviation
        self._beside: list[float] | None = None  # None: no save is under way

    def took(self, took_s: float) -> None:
        beside = self._beside  # the status thread may end it at any moment
        if beside is not None:
            beside.append(took_s)
        elif self._mean_s is None:
            self._mean_s = took_s
        else:
            self._spread_s += _NEWS * (abs(took_s - self._mean_s) - self._spread_s)
            self._mean_s += _NEWS * (took_s - self._mean_s)

    def begin(self) -> None:
        self._beside = []

    def end(self) -> float:
        beside, self._beside = self._beside, None
        if not beside or self._mean_s is None:
            return 0.0
        more_s = sum(beside) - len(beside) * self._mean_s
        return more_s if more_s > _CHANCE * self._spread_s * math.sqrt(len(beside)) else 0.0
