"""Small traces in, journals out, kept as text. A golden file that changes is read like code: which behaviour moved?

STERNA_REWRITE_GOLDEN=1 writes the files anew; the difference then belongs into the commit that explains it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sterna.compose.simulation import run_simulation
from sterna.compose.simulation_requests import (
    ClusterRequest,
    CostsRequest,
    RulesRequest,
    SimulationRequest,
    TraceRequest,
)
from sterna.journal.golden import golden_lines
from sterna.model.events import Event
from sterna.model.plan import Decision, Outcome
from sterna.model.snapshot import Snapshot
from sterna.wire.traces.shipped import shipped_traces

JOBS = 20


class GoldenJournal:
    """Keeps the short lines of every decision that changed something."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def seen(self, events: Sequence[Event]) -> None:
        pass

    def decided(self, view: Snapshot, decision: Decision) -> None:
        self.lines += golden_lines(view, decision)

    def happened(self, outcomes: Sequence[Outcome]) -> None:
        pass


def journal_of(policy: str, directory: Path) -> str:
    """The first jobs of a shipped trace on two nodes of four GPUs, half a minute for every change."""
    trace = directory / "first.csv"
    lines = shipped_traces()["poisson-120"].read_text(encoding="utf-8").splitlines(keepends=True)
    trace.write_text("".join(lines[: JOBS + 1]), encoding="utf-8")
    request = SimulationRequest(
        trace=TraceRequest(file=str(trace)),
        cluster=ClusterRequest(nodes=2, gpus_per_node=4),
        rules=RulesRequest(policy=policy),
        costs=CostsRequest(start_s=30.0, rescale_s=30.0, migrate_s=30.0),
    )
    journal = GoldenJournal()
    run_simulation(request, journal=journal)
    return "\n".join(journal.lines) + "\n"


@pytest.mark.parametrize("policy", ["elastic-fifo", "afs-l", "dragon"])
def test_the_journal_is_the_one_that_was_agreed_on(policy, tmp_path):
    golden = Path(__file__).parent / f"{policy}.txt"
    journal = journal_of(policy, tmp_path)
    if os.environ.get("STERNA_REWRITE_GOLDEN") == "1":
        golden.write_text(journal, encoding="utf-8")
    assert journal == golden.read_text(encoding="utf-8"), "if this is meant: STERNA_REWRITE_GOLDEN=1"
    assert len(journal.splitlines()) > JOBS
