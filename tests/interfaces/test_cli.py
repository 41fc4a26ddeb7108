"""The command line: what it answers, what it refuses, and how it says so."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sterna import __version__
from sterna.interfaces.cli import terminal
from sterna.interfaces.cli.main import cli
from sterna.model.errors import InvariantBroken

EXAMPLE = str(Path(__file__).parents[2] / "docs" / "examples" / "snapshot.yaml")
SMALL = ["--nodes", "4", "--gpus-per-node", "4"]
TRACE = "submitted_s,workers,duration_s\n0,4,600\n10,2,300\n20,8,900\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "three.csv"
    path.write_text(TRACE)
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def answer(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return str(result.stdout)


def test_the_list_of_commands_explains_itself():
    assert "Usage:" in answer("--help")


@pytest.mark.parametrize("command", sorted(cast(Any, get_command(cli)).commands))
def test_every_command_explains_itself_and_ends_with_examples(command):
    """What follows the examples says more about them."""
    text = answer(command, "--help")
    assert "Usage:" in text
    examples = re.search(r"\n  Examples?:\n((?:    .*\n?)+)", text)
    assert examples, "no example"
    assert f"sterna {command}" in examples.group(1)
    assert text.index("  -h, --help") < examples.start()


def test_help_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "pydantic", "rich", "yaml")
    script = f"import sys, sterna.interfaces.cli.main; print(*(name for name in {heavy} if name in sys.modules))"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (outcome.stdout.strip(), outcome.stderr) == ("", "")


def test_version():
    assert answer("version").strip() == __version__


def test_policies_are_listed_and_shown_with_their_options():
    assert "fifo" in answer("policies")
    assert "strict=false" in answer("policies", "fifo")
    facts = json.loads(answer("policies", "fifo", "-o", "json"))
    assert facts[0]["options"][-1]["default"] == "false"


def test_models_are_listed_and_shown_with_their_options():
    assert "amdahl" in answer("models")
    assert "serial=" in answer("models", "amdahl")


def test_traces_are_listed_and_described(trace):
    assert "poisson-120" in answer("traces")
    assert "2 to 8, median 4" in answer("traces", trace)


def test_decide_tells_people_and_programs(tmp_path):
    text = answer("decide", "--snapshot", EXAMPLE, "--policy", "fifo")
    assert "language/giant" in text
    assert "NeverFits" in text
    record = json.loads(answer("decide", "-s", EXAMPLE, "-p", "fifo", "-o", "json"))
    assert record["kind"] == "Decision"
    assert answer("decide", "-s", EXAMPLE, "-p", "fifo") == answer("decide", "-s", EXAMPLE, "-p", "fifo")


def test_decide_prints_a_schema_that_its_own_example_has():
    schema = json.loads(answer("decide", "--schema"))
    assert {"nodes", "jobs", "nowSeconds"} <= schema["properties"].keys()


def test_decide_without_a_snapshot_says_what_is_needed():
    result = run("decide", "--policy", "fifo")
    assert result.exit_code == 2
    assert "--snapshot" in result.stderr


def test_simulate_in_every_form(trace, tmp_path):
    common = ["simulate", "--trace", trace, "--policy", "fifo", *SMALL]
    assert "jobs finished" in answer(*common)
    assert answer(*common, "-o", "csv").splitlines()[1].startswith("fifo,three,3,3,0,")
    found = json.loads(answer(*common, "-o", "json"))
    assert found["summary"]["finished"] == len(found["jobs"]) == 3
    records, report = tmp_path / "jobs.csv", tmp_path / "report.html"
    result = run(*common, "--records", str(records), "--report", str(report))
    assert f"wrote {records}" in result.stderr
    assert len(records.read_text().splitlines()) == 4
    assert "<svg " in report.read_text()


def test_simulate_makes_up_jobs():
    found = answer("simulate", "--generate", "poisson", "--jobs", "12", "-p", "fifo", *SMALL, "-o", "csv")
    assert ",12,12,0," in found


def test_times_may_carry_units(trace):
    def total(*more: str) -> float:
        return float(
            json.loads(answer("simulate", "-t", trace, "-p", "fifo", *SMALL, "-o", "json", *more))["summary"][
                "jct_avg_s"
            ]
        )

    assert total("--start-cost", "1.5m") == total("--start-cost", "90") > total()


def test_rows_that_cannot_be_used_are_told_and_left_out(tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text(TRACE + "30,,5\n40,-1,5\n50,nan,5\n60,2,soon\n")
    result = run("simulate", "-t", str(path), "-p", "fifo", *SMALL, "-o", "csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("fifo,holes,3,3,")
    assert result.stderr.count("left out: line") == 4


def test_compare_writes_table_report_numbers_and_picture(trace, tmp_path):
    files = {name: tmp_path / name for name in ("report.html", "numbers.csv", "figure.svg")}
    text = answer(
        *("compare", "-p", "fifo,fifo:strict=true", "-t", f"{trace},poisson-120", *SMALL, "-j", "1"),
        *("--report", str(files["report.html"]), "--csv", str(files["numbers.csv"])),
        *("--figure", str(files["figure.svg"])),
    )
    assert text.index("three: 3 jobs") < text.index("fifo:strict=true") < text.index("poisson-120: 120 jobs")
    assert len(files["numbers.csv"].read_text().splitlines()) == 5
    assert files["report.html"].read_text().count('class="sortable"') == 2
    assert files["figure.svg"].read_text().startswith("<svg ")


@pytest.mark.slow
def test_compare_in_processes_finds_what_one_process_finds(trace):
    common = ["compare", "-p", "fifo,fifo:size=max", "-t", trace, *SMALL, "-o", "json"]
    alone, together = (json.loads(answer(*common, "-j", count)) for count in ("1", "2"))
    for one, other in zip(alone, together, strict=True):
        timeless = {name for name in one if not name.startswith("decision_")}
        assert {name: one[name] for name in timeless} == {name: other[name] for name in timeless}


@pytest.mark.slow
def test_compare_in_processes_refuses_as_one_process_does():
    alone, together = (run("compare", "-p", "fifo,srtf", "-t", "missing.csv", "-j", count) for count in ("1", "2"))
    assert (alone.exit_code, together.exit_code) == (2, 2)
    assert alone.stderr == together.stderr


def test_compare_prints_markdown(trace):
    assert answer("compare", "-p", "fifo", "-t", trace, *SMALL, "-j", "1", "-o", "markdown").startswith("| policy |")


def test_generate_gives_the_same_file_for_the_same_seed(tmp_path):
    path = tmp_path / "made.csv"
    run("generate", "--jobs", "10", "--seed", "3", "--file", str(path))
    assert path.read_text() == answer("generate", "--jobs", "10", "--seed", "3")
    assert path.read_text() != answer("generate", "--jobs", "10", "--seed", "4")
    assert "jobs               10" in answer("traces", str(path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param("simulate -t poisson-120 -p nope", "fifo", id="an unknown policy lists those there are"),
        pytest.param("simulate -t poisson-120 -p fifo --set nope=1", "strict", id="an unknown option, too"),
        pytest.param("simulate -t poisson-120 -p fifo --set strict", "key=value", id="a setting without a value"),
        pytest.param("simulate -t poisson-120 -p fifo --model nope", "amdahl", id="an unknown model, too"),
        pytest.param("simulate -t poisson-120 -p fifo --placement nope", "packed", id="an unknown placement, too"),
        pytest.param("simulate -t poisson-120 -p fifo --format nope", "tiresias", id="an unknown format, too"),
        pytest.param("simulate -t poisson-120 -p fifo --estimates nope", "learned", id="unknown estimates, too"),
        pytest.param("simulate -t poisson-120 -p fifo --start-cost nan", "1.5m", id="a cost that is no number"),
        pytest.param("simulate -t poisson-120 -p fifo --start-cost -5", "1.5m", id="a negative cost"),
        pytest.param("simulate -t poisson-120 -p fifo --nodes 0", "1", id="a cluster without nodes"),
        pytest.param("simulate -t poisson-120 -p fifo -o yaml", "json", id="an unknown output lists those there are"),
        pytest.param("simulate -p fifo", "trace", id="nothing to simulate"),
        pytest.param("simulate --generate nope -p fifo", "poisson", id="an unknown pattern lists those there are"),
        pytest.param("simulate -t missing.csv -p fifo", "missing.csv", id="a missing trace is named"),
        pytest.param("compare -t missing.csv -p fifo -j 1", "missing.csv", id="in a comparison, too"),
        pytest.param("decide -s missing.json -p fifo", "missing.json", id="a missing snapshot is named"),
        pytest.param(
            "simulate -t poisson-120 -p fifo --records no/dir/x.csv",
            "no/dir/x.csv",
            id="a place that cannot be written",
        ),
    ],
)
def test_wrong_input_is_answered_in_one_line_and_code_2(arguments, says):
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_errors_come_with_a_hint():
    assert "hint: sterna policies" in run("simulate", "-t", "poisson-120", "-p", "nope").stderr


def test_a_bug_of_ours_is_code_1(capsys):
    assert terminal.tell_error(InvariantBroken("node n1 is overfull")) == 1
    assert capsys.readouterr().err == "error: node n1 is overfull\n"


def test_a_reader_that_goes_away_is_no_error():
    sterna = f"{sys.executable} -m sterna.interfaces.cli.main generate --jobs 3000"
    script = f"set -o pipefail; {sterna} | true"
    outcome = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(closed):
    command = f"{sys.executable} -m sterna.interfaces.cli.main decide -s {EXAMPLE} -p fifo {closed}"
    outcome = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


class Screen:
    """A stream that may be a terminal."""

    def __init__(self, *, tty: bool) -> None:
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("tty", "environment", "coloured"),
    [
        pytest.param(True, {}, True, id="a terminal gets colour"),
        pytest.param(False, {}, False, id="a pipe does not"),
        pytest.param(True, {"NO_COLOR": "1"}, False, id="NO_COLOR is honoured"),
        pytest.param(True, {"TERM": "dumb"}, False, id="so is a dumb terminal"),
    ],
)
def test_colour(tty, environment, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal.has_colour(Screen(tty=tty)) is coloured  # type: ignore[arg-type]
