"""What a simulation found: one record a job, the cluster over time, and the numbers people compare."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from sterna.model.considering import ConsideredMove
from sterna.model.jobs import Worker


class Segment(NamedTuple):
    """A stretch of time in which a job held the same workers: one bar of a Gantt chart."""

    from_s: float
    to_s: float
    workers: int
    nodes: tuple[str, ...]  # each node once, sorted


class Considered(NamedTuple):
    """A move that a rebalancer looked at, made or not, and when."""

    at_s: float
    move: ConsideredMove


class Sample(NamedTuple):
    """The cluster from `at_s` on, until the next sample."""

    at_s: float
    gpus_used: float
    gpus_capacity: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    id: str
    category: str
    submitted_s: float
    first_started_s: float | None  # None: it never ran
    finished_s: float | None  # None: it did not finish; `refused` says why, or the simulation was cut short
    gpu_s: float
    ran_s: float
    lost_s: float  # GPU-seconds of work done and lost, plus pauses paid for
    resizes: int
    migrations: int
    preemptions: int
    segments: tuple[Segment, ...] = ()
    refused: str = ""  # why it can never run
    first_workers: tuple[Worker, ...] = ()  # where it first started: what another run may be pinned to

    @property
    def jct_s(self) -> float | None:
        return None if self.finished_s is None else self.finished_s - self.submitted_s

    @property
    def waited_s(self) -> float | None:
        return None if self.finished_s is None else self.finished_s - self.submitted_s - self.ran_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of one run, named as the reports name them. Times are seconds."""

    policy: str
    trace: str
    jobs: int
    finished: int
    refused: int
    jct_avg_s: float
    jct_p50_s: float
    jct_p90_s: float
    jct_p99_s: float
    waiting_avg_s: float
    makespan_s: float  # from the first submission's clock zero to the last completion
    utilisation: float  # GPU-seconds held / GPU-seconds there were, until the last completion
    resizes: int
    migrations: int
    preemptions: int
    lost_gpu_s: float
    cycles: int
    decision_p50_ms: float
    decision_p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    policy: str
    trace: str
    records: tuple[JobRecord, ...]
    samples: tuple[Sample, ...]
    decision_s: Sequence[float] = field(default_factory=tuple)  # how long each decision took, on the real clock
    cycles: int = 0
    considered: tuple[Considered, ...] = ()  # by rebalancers, in the order in which they looked

    @property
    def makespan_s(self) -> float:
        return max((record.finished_s for record in self.records if record.finished_s is not None), default=0.0)

    def summary(self) -> Summary:
        jcts = np.array([record.jct_s for record in self.records if record.jct_s is not None], dtype=float)
        waits = [record.waited_s for record in self.records if record.waited_s is not None]
        decisions = np.asarray(self.decision_s, dtype=float)
        return Summary(
            policy=self.policy,
            trace=self.trace,
            jobs=len(self.records),
            finished=len(jcts),
            refused=sum(bool(record.refused) for record in self.records),
            jct_avg_s=float(jcts.mean()) if len(jcts) else 0.0,
            jct_p50_s=_percentile(jcts, 50),
            jct_p90_s=_percentile(jcts, 90),
            jct_p99_s=_percentile(jcts, 99),
            waiting_avg_s=sum(waits) / len(waits) if waits else 0.0,
            makespan_s=self.makespan_s,
            utilisation=self.utilisation(),
            resizes=sum(record.resizes for record in self.records),
            migrations=sum(record.migrations for record in self.records),
            preemptions=sum(record.preemptions for record in self.records),
            lost_gpu_s=sum(record.lost_s for record in self.records),
            cycles=self.cycles,
            decision_p50_ms=_percentile(decisions, 50) * 1000,
            decision_p99_ms=_percentile(decisions, 99) * 1000,
        )

    def utilisation(self) -> float:
        """Area under used over area under capacity, until the last completion."""
        used = there = 0.0
        end_s = self.makespan_s
        for sample, following in zip_longest(self.samples, self.samples[1:]):
            until_s = min(end_s, following.at_s if following is not None else end_s)
            if until_s > sample.at_s:
                used += sample.gpus_used * (until_s - sample.at_s)
                there += sample.gpus_capacity * (until_s - sample.at_s)
        return used / there if there else 0.0


def _percentile(values: np.ndarray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
