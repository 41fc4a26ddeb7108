"""The validation page says what the simulator does today: its small rows are run again and looked for, and the commands
it prints are typed in as they stand.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
from benchmarks.reference_rows import ROWS, ReferenceRow
from benchmarks.request_words import request_of
from benchmarks.validate import command, reference_lines, voda_command, voda_lines
from benchmarks.voda_testbed import POLICIES, as_voda_words
from tests.traces import trace_path
from typer.testing import CliRunner

from sterna.compose.simulation import run_simulation
from sterna.interfaces.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "validation.md").read_text()
SMALL = [row for row in ROWS if "60_job" in row.trace or (row.id == "P6" and row.policy in {"fifo", "srtf"})]


def rows(chosen: list[ReferenceRow]) -> list[object]:
    return [pytest.param(row, id=re.sub(r"[^A-Za-z0-9]+", " ", f"{row.id} {row.what}")) for row in chosen]


def cells(words: tuple[str, ...]) -> str:
    return f"| {' | '.join(words)} |"


@pytest.mark.parametrize("row", rows(SMALL))
def test_the_page_holds_the_numbers_of_a_fresh_run(row):
    for line in reference_lines(row, trace_path(row.trace.split("/")[0]).parent):
        assert cells(line.cells) in PAGE, "run `make validate`"


def test_the_page_holds_the_testbed_as_it_is_simulated_today():
    for line in voda_lines(trace_path("voda-testbed")):
        assert cells(line.cells) in PAGE, "run `make validate`"


@pytest.mark.parametrize("row", rows(list(ROWS)))
def test_the_page_has_the_command_of_each_row(row):
    assert command(row) in PAGE.splitlines()


@pytest.mark.parametrize("row", rows(SMALL))
def test_a_command_of_the_page_gives_the_number_of_its_row(row):
    traces = trace_path(row.trace.split("/")[0]).parent
    assert row.holds("jct_avg_s", answered(command(row), traces)["jct_avg_s"])


@pytest.mark.parametrize("name", POLICIES)
def test_a_command_of_the_page_is_one_of_the_runs_behind_b1(name):
    testbed = trace_path("voda-testbed")
    assert voda_command(name) in PAGE.splitlines()
    run = run_simulation(request_of(as_voda_words(testbed, name))).result.summary()
    assert answered(voda_command(name), testbed.parent)["jct_avg_s"] == pytest.approx(run.jct_avg_s)


def answered(line: str, traces: Path) -> dict[str, float]:
    """The summary that this command prints."""
    words = shlex.split(line.replace("$STERNA_TRACES", shlex.quote(str(traces))))
    answer = CliRunner().invoke(cli, [*words[1:], "-o", "json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.stderr
    return dict(json.loads(answer.stdout)["summary"])
