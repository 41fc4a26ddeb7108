"""`sterna scenario`, and the options by which `simulate` lets jobs compete and be moved."""

import csv
import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli

SHARED = [
    *("simulate", "--generate", "specon", "--jobs", "20", "-p", "fifo", "--model", "fixed", "--placement", "spread"),
    *("--nodes", "4", "--gpus-per-node", "0", "--cpus-per-node", "4", "--contention", "cpu", "--migrate-cost", "6s"),
]


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def answer(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return str(result.stdout)


def test_scenarios_are_listed():
    listed = answer("scenario")
    assert "specon-50" in listed
    assert all(f"container-migration-{letter}" in listed for letter in "abcde")


def test_both_arms_stand_side_by_side():
    text = answer("scenario", "container-migration-a")
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["dragon", "imbalance"]
    assert "later under imbalance: no job" in text


def test_programs_get_every_job_of_every_arm():
    document = json.loads(answer("scenario", "container-migration-d", "-o", "json"))
    assert [arm["name"] for arm in document["arms"]] == ["dragon", "imbalance"]
    assert [len(arm["jobs"]) for arm in document["arms"]] == [3, 3]
    assert document["arms"][1]["makespan_change"] < 0


def test_documents_get_markdown():
    lines = answer("scenario", "container-migration-c", "-o", "markdown").splitlines()
    assert lines[0].startswith("| arm |")
    assert len(lines) == 4


def test_a_figure_and_the_rounds_are_written(tmp_path):
    figure, rounds = tmp_path / "all.svg", tmp_path / "distribution.csv"
    answer("scenario", "container-migration-a", "--figure", str(figure), "--distribution", str(rounds))
    picture = ElementTree.fromstring(figure.read_text())
    dots = [element for element in picture.iter() if element.tag.endswith("circle")]
    assert len(dots) == 6
    head, *lines = csv.reader(rounds.read_text().splitlines())
    assert head == ["time", "job", "orginal_node", "to_node"]
    assert any(line[3] for line in lines)


def test_several_draws_are_told_with_mean_and_spread():
    text = answer("scenario", "specon-50-uneven", "--seed", "1", "--seeds", "2")
    assert "mean and standard deviation over draws" in text
    assert "±" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["scenario", "specon-51"], "specon-50", id="no such scenario"),
        pytest.param(["scenario", "container-migration-a", "--seed", "3"], "fixed", id="jobs that cannot be drawn"),
        pytest.param([*SHARED, "--contention", "gpu"], "none, cpu", id="no such contention"),
        pytest.param([*SHARED, "--rebalance", "spcon"], "specon", id="no such rebalancer"),
        pytest.param([*SHARED, "--rebalance-set", "round-s=30"], "rebalancer", id="options of nobody"),
        pytest.param([*SHARED, "--rebalance", "specon", "--rebalance-set", "judge.mode=odd"], "raw", id="bad judge"),
        pytest.param([*SHARED, "--pin", "nowhere.csv"], "can be read", id="no such file"),
        pytest.param(["generate", "--pattern", "odd"], "specon", id="no such pattern"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_voda_39_a_second_run_starts_where_the_first_did(tmp_path):
    pins, rounds = tmp_path / "pins.csv", tmp_path / "distribution.csv"
    first = json.loads(answer(*SHARED, "-o", "json", "--save-pins", str(pins)))
    moving = [*SHARED, "-o", "json", "--pin", str(pins), "--rebalance", "specon", "--rebalance-set", "mode=off"]
    second = json.loads(answer(*moving, "--distribution", str(rounds)))
    assert [job["first_workers"] for job in first["jobs"]] == [job["first_workers"] for job in second["jobs"]]
    assert first["summary"]["migrations"] == 0
    moves = [line for line in csv.DictReader(rounds.read_text().splitlines()) if line["to_node"]]
    assert len(moves) == second["summary"]["migrations"] > 0


def test_a_run_with_moves_can_be_replayed(tmp_path):
    journal = tmp_path / "run.jsonl"
    answer(*SHARED, "--rebalance", "specon", "--rebalance-set", "judge.threshold=0.2", "--journal", str(journal))
    assert run("replay", str(journal)).exit_code == 0
