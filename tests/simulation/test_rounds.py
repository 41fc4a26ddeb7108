"""Rounds and a rate limit together: a decision comes at a round, and never sooner after the last than the limit."""

import json
from itertools import pairwise

import pytest

from sterna.compose.decision_journals import text_journal
from sterna.compose.simulation import run_simulation
from sterna.compose.simulation_requests import (
    ClusterRequest,
    RulesRequest,
    SimulationRequest,
    TimingRequest,
    TraceRequest,
)


def decided_at_s(*, interval_s: float | None, rate_limit_s: float | None) -> list[float]:
    lines: list[str] = []
    request = SimulationRequest(
        trace=TraceRequest(generate="poisson", jobs=20),
        cluster=ClusterRequest(nodes=4, gpus_per_node=4),
        rules=RulesRequest(policy="elastic-fifo"),
        timing=TimingRequest(interval_s=interval_s, rate_limit_s=rate_limit_s),
    )
    outcome = run_simulation(request, journal=text_journal(request.rules, lines.append))
    assert all(record.finished_s is not None for record in outcome.result.records)
    entries = [json.loads(line) for line in "".join(lines).splitlines()]
    return [entry["snapshot"]["nowSeconds"] for entry in entries if entry["entry"] == "decided"]


@pytest.mark.parametrize("limit_s", [60.0, 150.0, 300.0])
def test_a_round_that_comes_sooner_than_the_limit_is_left_out(limit_s):
    moments_s = decided_at_s(interval_s=60.0, rate_limit_s=limit_s)
    assert len(moments_s) > 3
    assert all(moment_s % 60.0 == 0.0 for moment_s in moments_s)
    assert all(later - sooner >= limit_s for sooner, later in pairwise(moments_s))
    assert min(later - sooner for sooner, later in pairwise(moments_s)) < limit_s + 60.0, "the very next round is used"
