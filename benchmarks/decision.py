"""How long a decision takes, by policy and size of cluster: a full cycle on a world never seen before, and the cycle
after one event (a job ends, another comes) in a settled world.

    python -m benchmarks.decision [--quick] [--json FILE] [--policies a,b]

Times are CPU seconds of this process, so that other work on the machine counts little. The cycle after an event
includes what it costs an engine to keep its columns up to date (`sterna.model.columns`). `growth` is the exponent of
the full cycle's time in the number of jobs, from the two largest job counts: 1 is linear, n log n comes out at about
1.1. Exit code 1: a policy exceeds one of its limits by more than half.
"""

import argparse
import gc
import json
import math
import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from sterna.model.columns import Columns, KeptColumns
from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.nodes import Cluster, Node, cards
from sterna.model.phases import Phase
from sterna.model.plan import Decision
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import KEPT
from sterna.placement.packed import packed
from sterna.placement.strategies import placement
from sterna.planner.decide import decide
from sterna.policies.registry import ENTRIES, Policy, policy

GPUS_PER_NODE = 8
SHAPES = (  # nodes, running, queued
    (100, 200, 1_000),
    (1_000, 500, 2_500),
    (1_000, 1_000, 5_000),
    (1_000, 2_000, 10_000),
    (5_000, 2_000, 10_000),
)
FULL_CYCLE_P99_MS = 250.0
ONE_EVENT_P99_MS = 50.0
HELD_TO = (1_000, 2_000, 10_000)  # the shape that the two limits are about


@dataclass(frozen=True)
class Row:
    policy: str
    nodes: int
    running: int
    queued: int
    full_p50_ms: float
    full_p99_ms: float
    event_p50_ms: float
    event_p99_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the shape that the limits are about, few repeats")
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well")
    parser.add_argument("--policies", default=",".join(entry.name for entry in ENTRIES))
    parser.add_argument("--repeats", type=int, default=None)
    arguments = parser.parse_args()
    repeats = arguments.repeats or (5 if arguments.quick else 15)
    shapes = (HELD_TO,) if arguments.quick else SHAPES
    rows: list[Row] = []
    print("policy              nodes  running  queued  full p50   p99 ms  event p50   p99 ms")
    for nodes, running, queued in shapes:
        view = world(nodes, running, queued)
        for name in arguments.policies.split(","):
            row = measured(view, policy(name), repeats, (nodes, running, queued))
            rows.append(row)
            print(
                f"{row.policy:18}{nodes:7}{running:9}{queued:8}{row.full_p50_ms:10.1f}{row.full_p99_ms:9.1f}"
                f"{row.event_p50_ms:11.1f}{row.event_p99_ms:9.1f}",
                flush=True,
            )
    report = {"rows": [vars(row) for row in rows], "growth": growth(rows), "limits": limits(rows)}
    for name, exponent in report["growth"].items():  # type: ignore[attr-defined]
        print(f"growth of {name}: jobs^{exponent:.2f}")
    for line in report["limits"]:
        print(line)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")
    for line in (exceeding := exceeded(rows)):
        print(line)
    return 1 if exceeding else 0


def world(nodes: int, running: int, queued: int, *, seed: int = 1) -> Snapshot:
    """A cluster whose running jobs were placed by the default placement, under a queue five times as long."""
    chance = random.Random(seed)
    machines = [
        Node(
            id=NodeId(f"node-{number:05}"),
            allocatable=Resources(96_000, 1 << 40, GPUS_PER_NODE * 1000),
            accelerator="gpu",
            devices=cards(GPUS_PER_NODE),
        )
        for number in range(nodes)
    ]
    jobs = [_job(chance, number) for number in range(running + queued)]
    share = max(1, nodes * GPUS_PER_NODE // max(1, running))
    grants = {
        job.id: Grant(size, size, KEPT)
        for job in jobs[:running]
        if (size := job.spec.allowed_size(share) or job.spec.workers_min)
    }
    layout = packed(Snapshot.of(now_s=0.0, nodes=machines, jobs=jobs), Target(grants))
    placed = [_running(chance, job, workers) if (workers := layout.workers_of(job.id)) else job for job in jobs]
    return Snapshot.of(now_s=10_000.0, nodes=machines, jobs=placed)


def _running(chance: random.Random, job: Job, workers: tuple[Worker, ...]) -> Job:
    return job.but(
        phase=Phase.RUNNING,
        workers=workers,
        started_s=0.0,
        first_started_s=0.0,
        waiting_since_s=None,
        gpu_s=chance.uniform(0, 20_000),
        gpu_s_since_start=chance.uniform(0, 5_000),
    )


def _job(chance: random.Random, number: int) -> Job:
    least = chance.choice([1, 1, 1, 2, 4, 8])
    most = least * chance.choice([1, 2, 4])
    serial = chance.choice([0.02, 0.05, 0.2])
    curve = SpeedupCurve(tuple(serial + (1 - serial) / workers for workers in range(1, most + 1)))
    submitted_s = number * 0.5
    return Job(
        spec=JobSpec(
            id=JobId(f"job-{number:06}"),
            submitted_s=submitted_s,
            request=Resources(4_000, 16 << 30, 1000),
            workers_min=least,
            workers_max=most,
            workers_initial=least,
            category=f"model-{number % 20}",
        ),
        waiting_since_s=submitted_s,
        units_left=chance.lognormvariate(8, 1.5),
        curve=curve,
        as_of_s=9_990.0,
    )


def measured(view: Snapshot, chosen: Policy, repeats: int, shape: tuple[int, int, int]) -> Row:
    place = placement(chosen.placement)
    full: list[float] = []
    for _ in range(repeats):
        unseen = replace(view, cluster=Cluster(tuple(replace(node) for node in view.nodes)))
        took_s, decision = timed(unseen, chosen)
        full.append(took_s)
    settled = carried_out(view, decision)
    for _ in range(3):  # some policies need a few cycles to come to rest
        decision = decide(settled, chosen, place)
        settled = carried_out(settled, decision)
    engine = _Engine(settled)
    decide(engine.view, chosen, place)  # from here on it is known what is asked of jobs
    events: list[float] = []
    kept_s = 0.0
    for number in range(repeats):
        engine.see(one_event(engine.view, number))
        kept_s += engine.kept_s
        took_s, decision = timed(engine.view, chosen)
        events.append(took_s + kept_s)
        engine.see(carried_out(engine.view, decision))
        kept_s = engine.kept_s
    return Row(chosen.name, *shape, *_p50_p99(full), *_p50_p99(events))


def timed(view: Snapshot, chosen: Policy) -> tuple[float, Decision]:
    place = placement(chosen.placement)
    gc.collect()
    began = time.process_time()
    decision = decide(view, chosen, place)
    return time.process_time() - began, decision


def carried_out(view: Snapshot, decision: Decision) -> Snapshot:
    """The world a second later, with the plan made true."""
    jobs = []
    for job in view.jobs:
        workers = decision.layout.workers_of(job.id)
        if workers == job.workers:
            jobs.append(job)
        elif workers:
            started_s = job.started_s if job.started_s is not None else view.now_s
            first_s = job.first_started_s if job.first_started_s is not None else view.now_s
            jobs.append(
                job.but(
                    phase=Phase.RUNNING,
                    workers=workers,
                    started_s=started_s,
                    first_started_s=first_s,
                    waiting_since_s=None,
                )
            )
        else:
            jobs.append(job.but(phase=Phase.WAITING, workers=(), started_s=None, waiting_since_s=view.now_s))
    return replace(view, jobs=tuple(jobs), memory=decision.memory, now_s=view.now_s + 1.0)


def one_event(view: Snapshot, number: int) -> Snapshot:
    """One running job ends and one new job comes, and an engine that was there all the time takes its snapshot."""
    ending = next(job for job in view.jobs if job.workers)
    chance = random.Random(number)
    newest = _job(chance, 900_000 + number)
    newest = newest.but(spec=replace(newest.spec, submitted_s=view.now_s), waiting_since_s=view.now_s)
    return replace(view, jobs=(*(job for job in view.jobs if job is not ending), newest))


class _Engine:
    """An engine that was there all the time, with what it keeps up to date so that its cycles need not work it out."""

    def __init__(self, view: Snapshot) -> None:
        self._columns = KeptColumns()
        for job in view.jobs:
            self._columns.add(job)
        self.view = self._prepared(view)
        self.kept_s = 0.0  # what bringing the columns up to date took the last time

    def see(self, view: Snapshot) -> None:
        before = self.view.by_id
        self.view = self._prepared(view)
        gone = [job_id for job_id in before if job_id not in self.view.by_id]
        new = [job for job in view.jobs if job.id not in before]
        changed = [job for job in view.jobs if before.get(job.id, job) is not job]
        began_s = time.process_time()
        for job_id in gone:
            self._columns.remove(job_id)
        for job in new:
            self._columns.add(job)
        for job in changed:
            self._columns.replace(job)
        self.kept_s = time.process_time() - began_s
        self.view.prepared(columns=Columns(view.jobs, self._columns))

    def _prepared(self, view: Snapshot) -> Snapshot:
        return view.prepared(
            by_id={job.id: job for job in view.jobs},
            holding=tuple(job for job in view.jobs if job.workers),
            leaving=(),
            wanting=view.jobs,
            columns=Columns(view.jobs, self._columns),
            accelerators_named=view.accelerators_named,
            jobs_have_rules=view.jobs_have_rules,
            largest_minimum=view.largest_minimum,
            smallest_minimum=view.smallest_minimum,
        )


def growth(rows: list[Row]) -> dict[str, float]:
    """Exponent of the full cycle in the number of jobs on 1,000 nodes, where it was measured for several."""
    exponents: dict[str, float] = {}
    for name in {row.policy for row in rows}:
        points = sorted(
            (row.running + row.queued, row.full_p50_ms) for row in rows if row.policy == name and row.nodes == 1_000
        )
        if len(points) >= 2:
            (few, fast), (many, slow) = points[0], points[-1]
            exponents[name] = math.log(slow / fast) / math.log(many / few)
    return dict(sorted(exponents.items()))


def limits(rows: list[Row]) -> list[str]:
    """How far each policy is from the two limits, as shares of them."""
    return [
        f"{row.policy}: full cycle p99 {row.full_p99_ms / FULL_CYCLE_P99_MS:.2f} of its limit, "
        f"one-event p99 {row.event_p99_ms / ONE_EVENT_P99_MS:.2f} of its limit"
        for row in rows
        if (row.nodes, row.running, row.queued) == HELD_TO
    ]


def exceeded(rows: list[Row]) -> list[str]:
    """What is above a limit by more than half of it: too much for a busy machine to explain."""
    return [
        f"{row.policy}: {what} p99 of {found_ms:.1f} ms exceeds its limit of {limit_ms:g} ms by more than half"
        for row in rows
        if (row.nodes, row.running, row.queued) == HELD_TO
        for what, found_ms, limit_ms in (
            ("full cycle", row.full_p99_ms, FULL_CYCLE_P99_MS),
            ("one-event", row.event_p99_ms, ONE_EVENT_P99_MS),
        )
        if found_ms > 1.5 * limit_ms
    ]


def _p50_p99(seconds: list[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1000, ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)] * 1000


if __name__ == "__main__":
    sys.exit(main())
