"""Evaluations of simulated jobs: taken at every check, judged by the judge that real reports are judged by.

The value follows the work that was done and nothing else, so that a job on a crowded node also seems to learn more
slowly: that is what a monitor sees, and what the judge's normalising is for. A job that did nothing since the last
check, because it waits or a move is being paid for, reports nothing.
"""

from typing import NamedTuple

from sterna.engines.simulator.node_sharing import SharingEngine
from sterna.engines.simulator.training import SimulatedJob
from sterna.engines.simulator.world import SimulatedEngine
from sterna.model.ids import JobId
from sterna.model.jobs import Worker
from sterna.model.judging import Judge, Judged
from sterna.model.trace import EvaluationCurve

_EVERY_S = 10.0  # where the judge takes every value as a check of its own


class _Evaluated(NamedTuple):
    curve: EvaluationCurve
    units: float  # all of its work
    units_left: float  # at the last check
    judged: Judged
    workers: tuple[Worker, ...] = ()  # that it had then


class Evaluations:
    """What every job that is evaluated has shown so far."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.every_s = judge.check_interval_s or _EVERY_S
        self._jobs: dict[JobId, _Evaluated] = {}

    def follow(self, simulated: SimulatedJob) -> None:
        """A job came."""
        if simulated.evaluation is not None:
            units = simulated.training.units_left
            judged = Judged.fresh(self._judge)
            self._jobs[simulated.spec.id] = _Evaluated(simulated.evaluation, units, units, judged)

    def take(self, engine: SimulatedEngine) -> None:
        """Look at every job that trains, and tell the engine how it grows."""
        engine.settle_running()
        for job_id, known in tuple(self._jobs.items()):
            job = engine.jobs.get(job_id)
            if job is None:
                del self._jobs[job_id]
                continue
            left = job.units_left
            if left is None or left >= known.units_left:
                continue
            judged = known.judged
            if known.workers and job.workers != known.workers:
                judged = judged.restarted(job.resumes_s)  # it was moved or resized meanwhile
            cpu_milli = engine.used_by(job_id) if isinstance(engine, SharingEngine) else None
            judged = judged.seen(engine.now_s, known.curve.value(known.units - left), cpu_milli=cpu_milli)
            self._jobs[job_id] = known._replace(units_left=left, judged=judged, workers=job.workers)
            engine.judged(job_id, judged.growth)
