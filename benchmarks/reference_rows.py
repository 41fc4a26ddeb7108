"""Runs of ours that a published simulator has made too, and what it found: rows P1 to P11.

Each row names a request to our simulator in the words of the command line, so that anybody can repeat it. The traces
are not part of the project: they are looked for in `STERNA_TRACES`, else beside the checkout.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.request_words import request_of
from sterna.compose.simulation_requests import SimulationRequest


def traces_directory() -> Path | None:
    """Where the published traces are; None if nowhere."""
    named = os.environ.get("STERNA_TRACES")
    there = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "traces"
    return there if there.is_dir() else None


@dataclass(frozen=True, kw_only=True)
class ReferenceRow:
    id: str
    what: str
    trace: str  # below the traces' directory
    nodes: int
    gpus_per_node: int
    policy: str
    settings: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)  # further fields of the request
    expected: Mapping[str, float]  # by field of the summary; "restarts" is all three kinds of change together
    within: float = 0.0  # relative tolerance; 0: exact, to the digits that were published
    digits: int = 1  # that the reference was published with
    small: bool = True  # runs in the tests; the others only in `make validate`

    def request(self, traces: Path) -> SimulationRequest:
        more = dict(self.more)
        if "profiles" in more:
            more["profiles"] = str(traces / str(more["profiles"]))
        words = {"trace": str(traces / self.trace), "nodes": self.nodes, "gpus_per_node": self.gpus_per_node}
        return request_of({**words, "policy": self.policy, "settings": self.settings, **more})

    def holds(self, name: str, ours: float) -> bool:
        theirs = self.expected[name]
        if self.within:
            return abs(ours - theirs) <= self.within * theirs
        return abs(ours - theirs) <= (0.1 if self.digits else 0.5)


COUNTED = {"placement": "count", "whole_seconds": True}
TIRESIAS = {**COUNTED, "model": "fixed"}
AFS = {**COUNTED, "foretells_again": True, "model": "afs", "profiles": "afs"}
AFS_REQUEST = {**AFS, "sizing": "request"}
AFS_MODEL = {**AFS, "sizing": "model"}
POLLUX = {
    "model": "pollux",
    "profiles": "pollux/profiles",
    "interval_s": 60.0,
    "start_cost_s": 30.0,
    "rescale_cost_s": 30.0,
    "migrate_cost_s": 30.0,
}
SEAT_INITIAL = {"order": "seat", "size": "initial"}
AFS_TRACES = ("tiresias240", "philly-ee9e8c", "philly-0e4a51")


def _tiresias(row: str, what: str, trace: str, shape: tuple[int, int], policy: str, settings: Mapping[str, str],
              expected: Mapping[str, float], **more: float | bool) -> ReferenceRow:  # fmt: skip
    nodes, gpus = shape
    return ReferenceRow(
        id=row, what=what, trace=f"tiresias/{trace}.csv", nodes=nodes, gpus_per_node=gpus, policy=policy,
        settings=settings, more=TIRESIAS, expected=expected, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _afs(row: str, trace: str, policy: str, jct: float, *, request: bool = False, **settings: str) -> ReferenceRow:
    return ReferenceRow(
        id=row, what=f"{policy} on AFS' {trace}", trace=f"afs/{trace}.csv", nodes=16, gpus_per_node=4, policy=policy,
        settings=settings, more=AFS_REQUEST if request else AFS_MODEL, expected={"jct_avg_s": jct},
    )  # fmt: skip


ROWS: tuple[ReferenceRow, ...] = (
    _tiresias("P1", "FIFO whose head blocks, 8 GPUs", "60_job", (2, 4), "fifo",
              {"strict": "true", "size": "initial"},
              {"jct_avg_s": 1556.5, "jct_p99_s": 3979.9, "makespan_s": 5747}),
    _tiresias("P2", "FIFO with skipping, 8 GPUs", "60_job", (2, 4), "fifo", SEAT_INITIAL,
              {"jct_avg_s": 715.3, "makespan_s": 4806}),
    _tiresias("P2", "FIFO with skipping, 16 GPUs", "60_job", (4, 4), "fifo", SEAT_INITIAL,
              {"jct_avg_s": 190.7, "makespan_s": 3271}),
    _tiresias("P3", "SRTF, 8 GPUs", "60_job", (2, 4), "srtf", {}, {"jct_avg_s": 519.9}),
    _tiresias("P3", "SRTF, 480 jobs, 60 GPUs", "480_job_synth", (15, 4), "srtf", {}, {"jct_avg_s": 62_899.0}),
    _tiresias("P4", "SRSF, 8 GPUs", "60_job", (2, 4), "srsf", {}, {"jct_avg_s": 563.4}, within=0.005),
    _tiresias("P4", "SRSF, 480 jobs, 60 GPUs", "480_job_synth", (15, 4), "srsf", {}, {"jct_avg_s": 51_553.0},
              within=0.005),
    _tiresias("P4", "SRSF, 992 jobs, 64 GPUs", "muri_trace3_sec", (8, 8), "srsf", {}, {"jct_avg_s": 172_683.7},
              within=0.005),
    _tiresias("P5", "LAS as Tiresias' simulator looks, 60 GPUs", "480_job_synth", (15, 4), "las",
              {"demote": "jump"}, {"jct_avg_s": 88_009.7, "preemptions": 811}),
    _tiresias("P5", "LAS as Tiresias' simulator looks, 64 GPUs", "muri_trace3_sec", (8, 8), "las",
              {"demote": "jump"}, {"jct_avg_s": 312_869.6, "preemptions": 1303}),
    _tiresias("P5", "LAS that demotes at the exact instant, 60 GPUs", "480_job_synth", (15, 4), "las", {},
              {"jct_avg_s": 83_010.6}),
    _tiresias("P5", "LAS that demotes at the exact instant, 64 GPUs", "muri_trace3_sec", (8, 8), "las", {},
              {"jct_avg_s": 327_259.0}, digits=0),
    _afs("P6", "tiresias240", "fifo", 32_779.1, request=True, order="seat", size="max"),
    _afs("P6", "tiresias240", "elastic-fifo", 44_649.9, request=True, variant="afs"),
    _afs("P6", "tiresias240", "srtf", 29_423.1, request=True),
    _afs("P6", "tiresias240", "srsf", 23_657.4, request=True),
    _afs("P6", "tiresias240", "elastic-srsf", 23_273.8, request=True),
    *(_afs("P7", trace, "afs-l", jct) for trace, jct in zip(AFS_TRACES, (20_567.7, 411_470.4, 127_723.6), strict=True)),
    *(_afs("P8", trace, "optimus", jct)
      for trace, jct in zip(AFS_TRACES, (28_589.9, 1_173_057.6, 205_058.3), strict=True)),
    *(_afs("P9", trace, "max-min", jct)
      for trace, jct in zip(AFS_TRACES, (28_305.5, 1_201_644.0, 178_793.8), strict=True)),
    ReferenceRow(id="P10", what="Tiresias in Pollux' simulator, workload 6", trace="pollux/workloads/workload-6.csv",
                 nodes=16, gpus_per_node=4, policy="las",
                 settings={"thresholds-gpu-s": "57600", "order": "insertion"},
                 more={**POLLUX, "sizing": "request", "placement": "widest"},
                 expected={"jct_avg_s": 3469.69375, "makespan_s": 78_609, "restarts": 43}, within=0.001),
    ReferenceRow(id="P11", what="Optimus with an oracle in Pollux' simulator, workload 6",
                 trace="pollux/workloads/workload-6.csv", nodes=16, gpus_per_node=4, policy="optimus",
                 more={**POLLUX, "sizing": "model", "placement": "widest-smallest-first"},
                 expected={"jct_avg_s": 5301.875, "makespan_s": 66_299, "restarts": 870}, within=0.02),
)  # fmt: skip
