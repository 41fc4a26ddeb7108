"""How simulated jobs make progress: the truth that policies only estimate. The performance models live in `models/`.

A `Training` is one job's mutable state in the simulator, advanced by it alone; everything a policy may know of it is
copied into the snapshot's `Job`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sterna.engines.simulator.contention import Appetite
from sterna.model.curves import SpeedupCurve
from sterna.model.jobs import JobSpec, Worker
from sterna.model.trace import EvaluationCurve


class Training(Protocol):
    """One job's true progress under whatever workers it is given."""

    def advance(self, workers: Sequence[Worker], from_s: float, to_s: float) -> float | None:
        """Train from one moment to another on these workers; the moment it finished, or None if it goes on."""

    def finish_s(self, workers: Sequence[Worker], from_s: float) -> float | None:
        """When it would finish if it trained on these workers from `from_s` on. None: ask again after advancing."""

    def rewind(self, workers: Sequence[Worker], seconds: float) -> None:
        """Lose the last `seconds` of training on these workers: a node went away after the latest checkpoint."""

    @property
    def units_left(self) -> float:
        """Work left, in the units of `curve`: what an all-knowing policy may be told."""

    @property
    def curve(self) -> SpeedupCurve:
        """What an all-knowing policy may be told of its speed: seconds per unit at 1, 2, ... workers."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A job of a trace: what its owner asked for, and how it will really train."""

    spec: JobSpec
    training: Training
    restart_s: float | None = None  # this job's own cost of any change. None: the simulation's
    appetite: Appetite = Appetite()  # CPU it could use, where a simulation lets jobs compete for it
    evaluation: EvaluationCurve | None = None  # None: it is never evaluated
