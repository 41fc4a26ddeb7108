"""Simulated jobs per CPU-second, beside what published simulators need for the same trace and policy.

    python -m benchmarks.simulator [--quick] [--json FILE] [--only WORD]

Each row runs in a process of its own, so that its peak memory is its own and nothing is warm. Reading the trace and
building the jobs is timed apart. The rate is that of the best repeat; `cold` is all of the first: reading, building and
simulating, profiles included. NumPy's linear algebra gets one thread: Pollux' profiles ask it for a small system once,
and its idle threads would go on spinning, which counts as CPU time although nobody's work is done. Peers' CPU seconds
were taken on a machine of the same kind and include, for Tiresias and Pollux, the start of the interpreter and the
loading of profiles.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.reference_rows import COUNTED, POLLUX, TIRESIAS, traces_directory
from benchmarks.request_words import request_of
from sterna.compose.simulation import simulation_of
from sterna.compose.simulation_requests import SimulationRequest
from sterna.engines.simulator.simulate import simulate

MEMORY_LIMIT_MIB = 500


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    traces: tuple[str, ...]  # simulated one after the other and counted together
    shape: tuple[int, int]  # nodes, GPUs in each
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, object]
    peer: str = ""  # whose simulator
    peer_cpu_s: float | None = None  # None: no published run of this kind
    times_peer_min: float = 1.0  # how many times the peer's rate is asked for
    repeats: int = 3
    quick: bool = True  # also part of the short run

    def request(self, traces: Path, trace: str) -> SimulationRequest:
        more = dict(self.more)
        if "profiles" in more:
            more["profiles"] = str(traces / str(more["profiles"]))
        nodes, gpus = self.shape
        words = {"trace": str(traces / trace), "nodes": nodes, "gpus_per_node": gpus}
        return request_of({**words, "policy": self.policy, "settings": self.settings, **more})


# As in the reference rows, but for AFS' way of working out every finish anew at every event: that is for parity of the
# last digit, costs as much as all the rest, and is no part of what a simulation needs.
_AFS_MODEL = {**COUNTED, "model": "afs", "profiles": "afs", "sizing": "model"}
_AFS_REQUEST = {**_AFS_MODEL, "sizing": "request"}


def _afs(trace: str, policy: str, cpu_s: float, more: Mapping[str, object] = _AFS_MODEL) -> Case:
    return Case(name=f"{policy}, AFS {trace}", traces=(f"afs/{trace}.csv",), shape=(16, 4), policy=policy,
                more=more, peer="AFS", peer_cpu_s=cpu_s)  # fmt: skip


def _pollux(name: str, policy: str, settings: Mapping[str, str], more: Mapping[str, object], cpu_s: float | None,
            workloads: tuple[int, ...] = (6,)) -> Case:  # fmt: skip
    traces = tuple(f"pollux/workloads/workload-{number}.csv" for number in workloads)
    return Case(name=name, traces=traces, shape=(16, 4), policy=policy, settings=settings, more={**POLLUX, **more},
                peer="Pollux", peer_cpu_s=cpu_s, times_peer_min=100.0, quick=len(workloads) == 1)  # fmt: skip


_POLLUX_TIRESIAS = {"thresholds-gpu-s": "57600", "order": "insertion"}
_RIGID_WIDEST = {"sizing": "request", "placement": "widest"}
_ELASTIC_WIDEST = {"sizing": "model", "placement": "widest-smallest-first"}
_ALL_EIGHT = tuple(range(1, 9))
_SYNTHETIC = {"traces": ("tiresias/480_job_synth.csv",), "shape": (15, 4), "more": TIRESIAS, "peer": "Tiresias"}
_PHILLY = {"traces": ("philly/philly_jobs.csv",), "shape": (100, 8), "more": TIRESIAS, "repeats": 1, "quick": False}
_ITP = {"traces": ("elasticflow-itp/cluster04.csv",), "shape": (40, 8), "more": TIRESIAS, "repeats": 1, "quick": False}

CASES: tuple[Case, ...] = (
    _afs("philly-0e4a51", "srsf", 0.17, _AFS_REQUEST),
    _afs("philly-0e4a51", "max-min", 0.26),
    _afs("philly-0e4a51", "afs-l", 0.73),
    _afs("philly-0e4a51", "optimus", 5.19),
    _afs("philly-ee9e8c", "srsf", 0.19, _AFS_REQUEST),
    _afs("philly-ee9e8c", "max-min", 0.40),
    _afs("philly-ee9e8c", "afs-l", 1.04),
    _afs("philly-ee9e8c", "optimus", 9.74),
    Case(name="fifo strict, Tiresias 480", policy="fifo", settings={"strict": "true", "size": "initial"},
         peer_cpu_s=0.41, **_SYNTHETIC),  # type: ignore[arg-type]
    Case(name="las, Tiresias 480", policy="las", settings={"demote": "jump"}, peer_cpu_s=1.19,
         **_SYNTHETIC),  # type: ignore[arg-type]
    _pollux("las, Pollux workload 6", "las", _POLLUX_TIRESIAS, _RIGID_WIDEST, 27.92),
    _pollux("optimus, Pollux workload 6", "optimus", {}, _ELASTIC_WIDEST, 128.88),
    _pollux("las, Pollux workloads 1-8", "las", _POLLUX_TIRESIAS, _RIGID_WIDEST, 218.0, _ALL_EIGHT),
    _pollux("optimus, Pollux workloads 1-8", "optimus", {}, _ELASTIC_WIDEST, None, _ALL_EIGHT),
    Case(name="fifo, Philly", policy="fifo", settings={"size": "initial"}, **_PHILLY),  # type: ignore[arg-type]
    Case(name="srsf, Philly", policy="srsf", **_PHILLY),  # type: ignore[arg-type]
    Case(name="srsf, ITP cluster 04", policy="srsf", **_ITP),  # type: ignore[arg-type]
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    case: str
    jobs: int
    cycles: int
    build_s: float  # reading the trace and building jobs, the first time
    simulate_s: float  # best repeat
    cold_s: float  # all of the first repeat
    peak_mib: float
    peer: str
    peer_cpu_s: float | None
    times_peer: float | None  # our jobs per CPU-second over theirs
    times_peer_cold: float | None
    asked_for: float

    @property
    def rate(self) -> float:
        return self.jobs / self.simulate_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the traces that take minutes")
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well")
    parser.add_argument("--only", metavar="WORD", default="", help="cases whose name holds this word")
    parser.add_argument("--case", metavar="NAME", help=argparse.SUPPRESS)  # the process of one row
    arguments = parser.parse_args()
    traces = traces_directory()
    if traces is None:
        print("The published traces are not there: set STERNA_TRACES to their directory.", file=sys.stderr)
        return 1
    if arguments.case:
        print(json.dumps(vars(measured(next(case for case in CASES if case.name == arguments.case), traces))))
        return 0
    chosen = [case for case in CASES if arguments.only in case.name and (case.quick or not arguments.quick)]
    rows = _reported(chosen)
    for line in verdicts(rows):
        print(line)
    if arguments.json:
        values = [{**vars(row), "jobs_per_cpu_s": row.rate} for row in rows]
        Path(arguments.json).write_text(json.dumps({"rows": values, "verdicts": verdicts(rows)}, indent=2) + "\n")
    return 0


def _reported(cases: list[Case]) -> list[Row]:
    print(f"{'case':32}{'jobs':>7}{'build s':>9}{'sim s':>8}{'jobs/s':>9}{'x peer':>8}{'cold x':>8}{'MiB':>6}")
    rows: list[Row] = []
    for case in cases:
        command = [sys.executable, "-m", "benchmarks.simulator", "--case", case.name]
        one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        told = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread).stdout
        row = Row(**json.loads(told))
        rows.append(row)
        times, cold = (f"{value:.2f}" if value else "-" for value in (row.times_peer, row.times_peer_cold))
        print(
            f"{row.case:32}{row.jobs:7}{row.build_s:9.2f}{row.simulate_s:8.2f}{row.rate:9.0f}{times:>8}{cold:>8}"
            f"{row.peak_mib:6.0f}",
            flush=True,
        )
    return rows


def measured(case: Case, traces: Path) -> Row:
    """Run one case in this process."""
    best_s, first = float("inf"), (0.0, 0.0)
    jobs = cycles = 0
    for repeat in range(case.repeats):
        jobs = cycles = 0
        build_s = simulate_s = 0.0
        for trace in case.traces:
            began_s = time.process_time()
            setup, _ = simulation_of(case.request(traces, trace))
            built_s = time.process_time()
            result = simulate(setup)
            simulate_s += time.process_time() - built_s
            build_s += built_s - began_s
            jobs += len(result.records)
            cycles += result.cycles
        best_s = min(best_s, simulate_s)
        if not repeat:
            first = (build_s, simulate_s)
    cold_s, peer_s = sum(first), case.peer_cpu_s
    return Row(
        case.name, jobs, cycles, first[0], best_s, cold_s, _peak_mib(), case.peer, peer_s,
        peer_s and peer_s / best_s, peer_s and peer_s / cold_s, case.times_peer_min,
    )  # fmt: skip


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def verdicts(rows: list[Row]) -> list[str]:
    """What is asked of the simulator, and whether these rows show it."""
    slow = [row for row in rows if row.times_peer is not None and row.times_peer < row.asked_for]
    lines = [f"{row.case}: {row.times_peer:.2f} times the peer's rate, asked for is {row.asked_for:g}" for row in slow]
    if not slow and any(row.times_peer is not None for row in rows):
        lines.append("every case with a peer reaches the rate that is asked for")
    most = max((row.peak_mib for row in rows), default=0.0)
    return [*lines, f"peak memory {most:.0f} MiB, {most / MEMORY_LIMIT_MIB:.2f} of its limit"]


if __name__ == "__main__":
    sys.exit(main())
