"""Our simulator against published ones, on their traces: every row that is small enough for each test run."""

import re

import pytest
from benchmarks.reference_rows import ROWS, ReferenceRow
from tests.traces import trace_path

from sterna.compose.simulation import run_simulation


def found(row: ReferenceRow) -> dict[str, float]:
    root = trace_path(row.trace.split("/")[0]).parent
    summary = run_simulation(row.request(root)).result.summary()
    restarts = summary.resizes + summary.migrations + summary.preemptions
    return {**{name: getattr(summary, name, 0.0) for name in row.expected}, "restarts": restarts}


def rows(*ids: str) -> list[object]:
    return [pytest.param(row, id=re.sub(r"[^A-Za-z0-9]+", " ", row.what)) for row in ROWS if row.id in ids]


def check(row: ReferenceRow) -> None:
    ours = found(row)
    for name, theirs in row.expected.items():
        assert row.holds(name, ours[name]), f"{row.id} {row.what}: {name} is {ours[name]}, published {theirs}"


@pytest.mark.parametrize("row", rows("P1"))
def test_p1_strict_fifo(row):
    check(row)


@pytest.mark.parametrize("row", rows("P2"))
def test_p2_fifo_with_skipping(row):
    check(row)


@pytest.mark.parametrize("row", rows("P3"))
def test_p3_shortest_remaining_time(row):
    check(row)


@pytest.mark.parametrize("row", rows("P4"))
def test_p4_shortest_remaining_service(row):
    check(row)


@pytest.mark.parametrize("row", rows("P5"))
def test_p5_least_attained_service(row):
    check(row)


@pytest.mark.parametrize("row", rows("P6"))
def test_p6_rigid_and_request_bound_policies_of_afs(row):
    check(row)


@pytest.mark.parametrize("row", rows("P7"))
def test_p7_afs_l(row):
    check(row)


@pytest.mark.parametrize("row", rows("P8"))
def test_p8_optimus(row):
    check(row)


@pytest.mark.parametrize("row", rows("P9"))
def test_p9_max_min(row):
    check(row)


@pytest.mark.parametrize("row", rows("P10"))
def test_p10_tiresias_on_pollux_profiles(row):
    check(row)


@pytest.mark.parametrize("row", rows("P11"))
def test_p11_optimus_on_pollux_profiles(row):
    check(row)
