"""What a row says of a job beside its speed: parameter servers, CPU that it could use, evaluations.

The same for every performance model: models see elastic workers only, and know nothing of neighbours.
"""

from collections.abc import Sequence
from dataclasses import replace

from sterna.engines.simulator.contention import Appetite
from sterna.engines.simulator.training import SimulatedJob, Training
from sterna.model.curves import SpeedupCurve
from sterna.model.jobs import Role, Worker
from sterna.model.trace import TraceRow


def as_told(row: TraceRow, job: SimulatedJob) -> SimulatedJob:
    """The job with what its row says; the very same where it says nothing."""
    training = BesideServers(job.training) if row.servers else job.training
    worker_milli = row.cpu_demand_milli or row.cpu_limit_milli or row.cpu_milli
    if training is job.training and not worker_milli and row.evaluation is None:
        return job
    appetite = Appetite(worker_milli, row.server_demand_milli)
    return replace(job, training=training, appetite=appetite, evaluation=row.evaluation)


class BesideServers:
    """Training of the elastic workers: parameter servers hold the state and add no speed."""

    __slots__ = ("_training",)

    def __init__(self, training: Training) -> None:
        self._training = training

    def advance(self, workers: Sequence[Worker], from_s: float, to_s: float) -> float | None:
        return self._training.advance(self._elastic(workers), from_s, to_s)

    def finish_s(self, workers: Sequence[Worker], from_s: float) -> float | None:
        return self._training.finish_s(self._elastic(workers), from_s)

    def rewind(self, workers: Sequence[Worker], seconds: float) -> None:
        self._training.rewind(self._elastic(workers), seconds)

    def _elastic(self, workers: Sequence[Worker]) -> list[Worker]:
        return [worker for worker in workers if worker.role is Role.WORKER]

    @property
    def units_left(self) -> float:
        return self._training.units_left

    @property
    def curve(self) -> SpeedupCurve:
        return self._training.curve
