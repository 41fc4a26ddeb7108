"""A simulated cluster whose containers compete for the CPU of their node (`contention.py`).

Whenever a container comes to a node or leaves it, all jobs there go at another pace from that moment on: they are
brought to now at the pace they had, and their finishes are foretold anew. No other job is touched.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sterna.engines.simulator.contention import SharedCpu
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.results import JobRecord
from sterna.engines.simulator.training import SimulatedJob, Training
from sterna.engines.simulator.world import SimulatedEngine
from sterna.model.curves import SpeedupCurve
from sterna.model.happenings import ServingPod
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Worker
from sterna.model.nodes import Cluster
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot


class SlowedTraining:
    """Training that gets through `pace` of a second each second: 1 is what its job does where no other is beside it."""

    __slots__ = ("_alone", "pace")

    def __init__(self, alone: Training) -> None:
        self._alone = alone
        self.pace = 1.0

    def advance(self, workers: Sequence[Worker], from_s: float, to_s: float) -> float | None:
        done_s = self._alone.advance(workers, from_s, from_s + (to_s - from_s) * self.pace)
        return None if done_s is None else self._stretched(from_s, done_s)

    def finish_s(self, workers: Sequence[Worker], from_s: float) -> float | None:
        finish_s = self._alone.finish_s(workers, from_s)
        return None if finish_s is None else self._stretched(from_s, finish_s)

    def rewind(self, workers: Sequence[Worker], seconds: float) -> None:
        self._alone.rewind(workers, seconds * self.pace)

    def _stretched(self, from_s: float, to_s: float) -> float:
        return from_s + (to_s - from_s) / self.pace if self.pace else math.inf

    @property
    def units_left(self) -> float:
        return self._alone.units_left

    @property
    def curve(self) -> SpeedupCurve:
        return self._alone.curve


class SharingEngine(SimulatedEngine):
    """Implements `Engine`. Jobs that say nothing of the CPU they could use are neither slowed nor slow others."""

    def __init__(self, cluster: Cluster, costs: Costs, **more: Any) -> None:
        super().__init__(cluster, costs, **more)
        self._shared = SharedCpu()
        self._simulated: dict[JobId, SimulatedJob] = {}
        self._slowed: dict[JobId, SlowedTraining] = {}

    def snapshot(self) -> Snapshot:
        self.settle_running()  # a job's own counters would go on at the pace it has alone
        return super().snapshot()

    def usage(self) -> Mapping[NodeId, Resources]:
        used = self._shared.used_milli()
        return {node.id: Resources(cpu_milli=round(used.get(node.id, 0.0))) for node in self.cluster.nodes}

    def used_by(self, job_id: JobId) -> float:
        """Thousandths of a CPU that the job uses now."""
        return self._shared.used_by(job_id)

    def arrive(self, simulated: SimulatedJob) -> None:
        slowed = SlowedTraining(simulated.training)
        self._simulated[simulated.spec.id], self._slowed[simulated.spec.id] = simulated, slowed
        super().arrive(replace(simulated, training=slowed))

    def commit(self) -> bool:
        changed = super().commit()
        if changed:
            self._share_out()
        return changed

    def record(self, job_id: JobId, finished_s: float | None, *, refused: str = "") -> JobRecord:
        simulated = self._simulated.pop(job_id)
        del self._slowed[job_id]
        self._shared.moved(simulated.spec, simulated.appetite, ())
        record = super().record(job_id, finished_s, refused=refused)
        self._share_out()
        return record

    def judge_nodes(self) -> float | None:
        again_s = super().judge_nodes()
        self._look_at_nodes()
        return again_s

    def bind_serving(self) -> list[ServingPod]:
        bound = super().bind_serving()
        if bound:
            self._look_at_nodes()
        return bound

    def serving_left(self, pod_id: str) -> None:
        super().serving_left(pod_id)
        self._look_at_nodes()

    def _hold(self, job_id: JobId, workers: tuple[Worker, ...]) -> None:
        super()._hold(job_id, workers)
        simulated = self._simulated[job_id]
        self._shared.moved(simulated.spec, simulated.appetite, workers)

    def _look_at_nodes(self) -> None:
        self._shared.touch(self.cluster.by_id)
        self._share_out()

    def _share_out(self) -> None:
        for job_id, pace in self._shared.share_out(self.cluster).items():
            slowed = self._slowed[job_id]
            if pace != slowed.pace:
                self._settle(job_id)
                slowed.pace = pace
                self._foretell_anew(job_id)
