"""Columns of our own trace format for runs in which jobs compete for CPU."""

import pytest

from sterna.engines.simulator.container_migration import container_migration_jobs
from sterna.engines.simulator.specon import specon_jobs
from sterna.model.trace import EvaluationCurve
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.trace_reading import parse_trace

HEAD = "submitted_s,workers,duration_s"


@pytest.mark.parametrize("rows", [specon_jobs(seed=9), container_migration_jobs("d")], ids=["specon", "piled up"])
def test_what_is_written_is_read_again(rows):
    trace = parse_trace(dump_rows(rows).splitlines(keepends=True), name="x")
    assert trace.format == "sterna"
    assert [row._replace(line=0) for row in trace.rows] == list(rows)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("servers", "-1"),
        ("servers", "4096"),
        ("cpu_demand_milli", "nan"),
        ("cpu_limit_milli", "much"),
        ("evaluation_start", "0.1"),
        ("evaluation_rate", "0.1"),
    ],
)
def test_a_row_that_cannot_be_used_is_told_with_its_column(column, cell):
    lines = [f"{HEAD},{column}\n", "0,1,60,\n", f"1,1,60,{cell}\n"]
    trace = parse_trace(lines, name="x")
    assert [problem.field for problem in trace.problems] == [column]
    assert len(trace.rows) == 1


def test_all_three_columns_make_a_curve():
    text = [f"{HEAD},evaluation_start,evaluation_end,evaluation_rate\n", "0,1,60,-2,0.9,0.01\n"]
    curve = parse_trace(text, name="x").rows[0].evaluation
    assert curve == EvaluationCurve(-2.0, 0.9, 0.01)
    assert curve.value(0.0) == -2.0
    assert curve.value(1e9) == pytest.approx(0.9)
