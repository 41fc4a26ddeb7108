"""Voda's own testbed, replayed: rows P15 (its recorded decisions on our execution model), B1 (our policies in its
place, with the defects it had and as they are by default) and B2 (our policies asked what it asked, decision by
decision).

24 jobs on 12 real GPUs; what was measured is in `voda-testbed/` among the published traces.
"""

import csv
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from benchmarks.request_words import request_of
from sterna.compose.simulation import run_simulation
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.models.tables import VODA_SPEEDUPS, VODA_WORK_S
from sterna.engines.simulator.results import Summary
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.planner.decide import Settings
from sterna.policies.registry import policy
from sterna.wire.traces.clusters import uniform_nodes

RUN = "run_1"
START_S, RESCALE_S, MIGRATE_S = 84.0, 103.0, 103.0  # fitted on both of the testbed's runs
RATE_LIMIT_S = 120.0
POLICIES: Mapping[str, tuple[str, Mapping[str, str]]] = {  # theirs -> ours, with the constants that branch had
    "ElasticFIFO": ("elastic-fifo", {}),
    "ElasticTiresias": (
        "elastic-tiresias",
        {"thresholds-gpu-s": "1800", "promote-knob": "4", "compact-above": "4"},
    ),
    "FfDLOptimizer": ("ffdl", {}),
    "AFS-L": ("afs-l", {"variant": "voda"}),
}
DEFECTS: Mapping[str, Mapping[str, str]] = {
    "ElasticTiresias": {"promotion": "voda"}
}  # put back for B1, and ties by lot
SEEDS = 40  # of the lots: one run is one draw, and elastic Tiresias varies by 4 % from draw to draw


@dataclass(frozen=True)
class Measured:
    """What the testbed's logs say of one policy."""

    jct_avg_s: float
    makespan_s: float


@cache
def _decisions(directory: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads((directory / "decisions.json").read_text()))


@cache
def _job_rows(directory: Path) -> tuple[dict[str, str], ...]:
    with (directory / "jobs.csv").open(newline="") as lines:
        return tuple(csv.DictReader(lines))


def measured(directory: Path, name: str) -> Measured:
    with (directory / "summary.csv").open(newline="") as lines:
        row = next(row for row in csv.DictReader(lines) if row["run"] == RUN and row["policy"] == name)
    return Measured(float(row["avg_jct"]), float(row["makespan"]))


def _rows_of(directory: Path, name: str) -> list[dict[str, str]]:
    return [row for row in _job_rows(directory) if row["run"] == RUN and row["policy"] == name]


def _spec(row: Mapping[str, str]) -> JobSpec:
    return JobSpec(
        id=JobId(f"job-{int(row['idx']):02}"),
        submitted_s=float(row["arrival_s"]),
        request=Resources(gpu_milli=1000),
        workers_min=1,
        workers_max=4,
        workers_initial=2,
        category=row["model"],
    )


def replayed(directory: Path, name: str) -> Summary:
    """P15: the recorded decisions and placements, made true by our execution model."""
    recorded = [entry for entry in _decisions(directory) if entry["run"] == RUN and entry["policy"] == name]
    jobs = [
        SimulatedJob(_spec(row), PacedTraining(VODA_WORK_S[row["model"]], _curve(row["model"])))
        for row in _rows_of(directory, name)
    ]
    record = _Record(recorded)
    setup = Simulation(
        nodes=uniform_nodes(3, 8),  # the record never exceeds 12 GPUs, but a job of ours may end a little later
        jobs=jobs,
        size=record.size,
        place=record.place,
        settings=Settings(counted=True),
        costs=Costs(START_S, RESCALE_S, MIGRATE_S),
        policy_name=name,
        trace_name=RUN,
    )
    return simulate(setup).summary()


class _Record:
    """A policy and a placement that say what was said at the time; both look only at the snapshot's clock."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._times: list[float] = [float(entry["t"]) for entry in entries]
        self._workers: list[dict[JobId, tuple[Worker, ...]]] = []
        places: dict[str, dict[str, int]] = {}
        for entry in entries:
            if entry["placement"] is not None:  # it was written down only when something changed
                places = {**places, **entry["placement"]}
            self._workers.append(
                {
                    JobId(f"job-{int(index):02}"): _workers(places.get(index, {}), count)
                    for index, count in entry["alloc"].items()
                }
            )

    def _at(self, view: Snapshot) -> int:
        return bisect_right(self._times, view.now_s) - 1

    def size(self, view: Snapshot) -> Target:
        at = self._at(view)
        said = self._workers[at] if at >= 0 else {}
        because = Because(Why.RECORDED)
        grants = {}
        for job in view.jobs:
            count = len(said[job.id]) if job.id in said else job.size  # still at it after the record thinks it ended
            if count:
                grants[job.id] = Grant(count, count, because)
        later = [time_s for time_s in self._times if time_s > view.now_s]
        return Target(grants, memory=view.memory, wake_s=min(later, default=None))

    def place(self, view: Snapshot, target: Target) -> Layout:
        at = self._at(view)
        said = self._workers[at] if at >= 0 else {}
        return Layout({job_id: said.get(job_id) or view.by_id[job_id].workers for job_id in target.grants})


def _workers(places: Mapping[str, int], count: int) -> tuple[Worker, ...]:
    nodes = [node for node, here in sorted(places.items()) for _ in range(here)]
    nodes += ["gpu3"] * (count - len(nodes))
    return tuple(Worker(Role.WORKER, ordinal, NodeId(node)) for ordinal, node in enumerate(nodes[:count]))


def testbed_words(directory: Path, name: str) -> dict[str, Any]:
    """The testbed's 24 jobs under the policy of ours that goes by this name there, as `request_of` reads it."""
    ours, settings = POLICIES[name]
    return {
        "trace": str(directory / f"workload_{RUN}.csv"),
        "policy": ours,
        "settings": settings,
        "nodes": 3,
        "gpus_per_node": 4,
        "model": "voda",
        "sizing": "model",
        "placement": "repack",
        "start_cost_s": START_S,
        "rescale_cost_s": RESCALE_S,
        "migrate_cost_s": MIGRATE_S,
        "rate_limit_s": RATE_LIMIT_S,
    }


def simulated(directory: Path, name: str) -> Summary:
    """Our own policy and placement on the same 24 jobs, as they are by default."""
    return run_simulation(request_of(testbed_words(directory, name))).result.summary()


class Spread(NamedTuple):
    """Many runs of one policy: their average completion times, and how often jobs were moved, resized and stopped."""

    jct_mean_s: float
    jct_deviation_s: float
    migrations: float
    resizes: float
    preemptions: float


def as_voda_words(directory: Path, name: str) -> dict[str, Any]:
    words = testbed_words(directory, name)
    settings = {**words["settings"], **DEFECTS.get(name, {})}
    return {**words, "settings": settings, "placement": "repack-by-lot"}


@cache
def as_voda(directory: Path, name: str) -> Spread:
    """B1: our own policy and placement with the defects that Voda's had, as a mean over lots: seeds 0 to 39."""
    request = request_of(as_voda_words(directory, name))
    runs = [run_simulation(replace(request, seed=seed)).result.summary() for seed in range(SEEDS)]
    jcts = [run.jct_avg_s for run in runs]
    return Spread(
        fmean(jcts),
        pstdev(jcts),
        fmean(run.migrations for run in runs),
        fmean(run.resizes for run in runs),
        fmean(run.preemptions for run in runs),
    )


@dataclass(frozen=True)
class Agreement:
    same: int
    decisions: int
    differences: tuple[str, ...]
    worse: int  # how often theirs, where it differs, has the greater sum of speed-ups by the measured curves

    @property
    def share(self) -> float:
        return self.same / self.decisions


def agreement(directory: Path, name: str) -> Agreement:
    """B2: for each recorded decision, what our policy says to the jobs there were at that moment."""
    ours, settings = POLICIES[name]
    chosen = policy(ours, settings)
    rows = {row["idx"]: row for row in _rows_of(directory, name)}
    held: dict[str, int] = {}
    same = worse = 0
    differences: list[str] = []
    recorded = [entry for entry in _decisions(directory) if entry["run"] == RUN and entry["policy"] == name]
    for entry in recorded:
        jobs = [_job_at(rows[index], entry["t"], held.get(index, 0)) for index in entry["alloc"]]
        view = Snapshot.of(now_s=entry["t"], nodes=uniform_nodes(3, 4), jobs=jobs)
        target = chosen(view)
        said = {index: target.workers_of(JobId(f"job-{int(index):02}")) for index in entry["alloc"]}
        if said == entry["alloc"]:
            same += 1
        else:
            other = {index: (count, said[index]) for index, count in entry["alloc"].items() if said[index] != count}
            differences.append(f"t={entry['t']:.0f}: theirs, ours by job: {other}")
            gain = sum(
                _curve(rows[index]["model"]).speedup(mine) - _curve(rows[index]["model"]).speedup(theirs)
                for index, (theirs, mine) in other.items()
            )
            worse += gain < -1e-9
        held = entry["alloc"]
    return Agreement(same, len(recorded), tuple(differences), worse)


def _job_at(row: Mapping[str, str], now_s: float, size: int) -> Job:
    """A job as the scheduler saw it. Work left is not in the logs: it is taken from how long the job still ran."""
    work_s = VODA_WORK_S[row["model"]]
    arrived_s, finished_s = float(row["arrival_s"]), float(row["finish_s"])
    left = work_s * max(0.0, min(1.0, (finished_s - now_s) / max(1.0, finished_s - arrived_s)))
    workers = tuple(Worker(Role.WORKER, ordinal, NodeId("node-000")) for ordinal in range(size))
    return Job(
        spec=_spec(row),
        workers=workers,
        waiting_since_s=None if size else arrived_s,
        started_s=arrived_s if size else None,
        first_started_s=arrived_s if size else None,
        as_of_s=now_s,
        units_left=left,
        curve=_curve(row["model"]),
    )


def _curve(model: str) -> SpeedupCurve:
    return SpeedupCurve.from_speedups(VODA_SPEEDUPS[model])
