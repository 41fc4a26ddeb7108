"""A run is written down, decided again, and compared; what was tampered with is named."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sterna.interfaces.cli.engine_choice import Engine
from sterna.interfaces.cli.main import cli
from sterna.interfaces.reports.replay_difference import first_difference
from sterna.journal.replay import Replayed

RUN = ["simulate", "--generate", "bursty", "--jobs", "12", "--nodes", "2", "--rescale-cost", "30s", "-o", "csv"]


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    assert run(*RUN, "-p", "afs-l", "--journal", str(path)).exit_code == 0
    return path


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["-p", "afs-l"], id="a policy with its defaults"),
        pytest.param(["-p", "dragon", "--starving-after", "5m"], id="room kept for those who starve"),
        pytest.param(["-p", "las", "--set", "demote=jump", "--placement", "count"], id="an option, and no nodes"),
        pytest.param(["-p", "elastic-tiresias", "--estimates", "learned"], id="estimates instead of the truth"),
    ],
)
def test_what_a_simulation_decided_is_decided_again(options, tmp_path):
    path = str(tmp_path / "run.jsonl")
    assert run(*RUN, *options, "--journal", path).exit_code == 0
    result = run("replay", path)
    assert result.exit_code == 0, result.stdout + result.stderr
    assert "decisions, all the same" in result.stdout


def test_the_journal_changes_nothing_about_the_run(journal, tmp_path):
    timeless = slice(0, 16)
    alone = run(*RUN, "-p", "afs-l").stdout.splitlines()[1].split(",")[timeless]
    watched = run(*RUN, "-p", "afs-l", "--journal", str(tmp_path / "j")).stdout.splitlines()[1].split(",")[timeless]
    assert alone == watched


def test_programs_get_json(journal):
    found = json.loads(run("replay", str(journal), "-o", "json").stdout)
    assert found["same"] is True
    assert found["decisions"] > 10


def test_a_decision_that_was_tampered_with_is_named(journal, tmp_path):
    lines = journal.read_text().splitlines(keepends=True)
    number = next(index for index, line in enumerate(lines) if '"do":"grow"' in line)
    record = json.loads(lines[number])
    record["decision"]["plan"][0]["actions"][0]["to"][0]["node"] = "node-999"
    lines[number] = json.dumps(record, separators=(",", ":")) + "\n"
    path = tmp_path / "tampered.jsonl"
    path.write_text("".join(lines))
    result = run("replay", str(path))
    assert result.exit_code == 1
    assert "decisions, 1 of them different" in result.stdout
    assert f"journal line {number + 1}: plan[0].actions[0].to[0].node: recorded" in result.stdout
    assert 'recorded "node-999", now "node-00' in result.stdout
    found = json.loads(run("replay", str(path), "-o", "json").stdout)
    assert found["difference"]["line"] == number + 1


def test_a_journal_cut_short_by_a_crash_is_replayed_as_far_as_it_goes(journal, tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(journal.read_bytes()[:20_000])
    assert run("replay", str(path)).exit_code == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("", "what opens a journal", id="an empty file"),
        pytest.param("submitted_s,workers\n", "one line of JSON", id="no journal at all"),
        pytest.param('{"entry":"decided"}\n', "what opens a journal", id="a journal without its beginning"),
        pytest.param('{"entry":"opened","about":{"policy":"nope"}}\n', "fifo", id="an unknown policy"),
        pytest.param('{"entry":"opened","about":{"policy":"fifo","placement":"x"}}\n', "packed", id="a placement, too"),
        pytest.param(
            '{"entry":"opened","about":{"policy":"fifo"}}\n{"entry":"decided"}\n',
            "journal line 2: snapshot",
            id="a decision without its snapshot",
        ),
        pytest.param(
            '{"entry":"opened","about":{"policy":"fifo"}}\n{"entry":"decided","snapshot":{"a":1e999},"decision":{}}\n',
            "journal line 2: a: inf",
            id="a number that is none",
        ),
        pytest.param(
            '{"entry":"opened","about":{"policy":"fifo","starvingAfterSeconds":"soon"}}\n',
            "starvingAfterSeconds",
            id="a time that is none",
        ),
    ],
)
def test_what_is_no_journal_is_refused(content, says, tmp_path):
    path = tmp_path / "journal"
    path.write_text(content)
    result = run("replay", str(path))
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("recorded", "again", "expected"),
    [
        pytest.param('{"a":[1,2]}', '{"a":[1,3]}', ("a[1]", "2", "3"), id="a value in a list"),
        pytest.param('{"a":[1]}', '{"a":[1,3]}', ("a[1]", "nothing", "3"), id="something more"),
        pytest.param('{"a":1,"b":2}', '{"a":1}', ("b", "2", "nothing"), id="something less"),
        pytest.param('{"a":1}', '{"a":1.0}', ("a", "1", "1.0"), id="another way to write a number"),
        pytest.param('{"a":1,"b":2}', '{"b":2,"a":1}', ("order of keys", *['"{'] * 2), id="only another order"),
    ],
)
def test_the_first_difference_is_told_by_its_path(recorded, again, expected):
    found = first_difference(Replayed(7, recorded, again))
    path, before, now = expected
    assert (found.line, found.path) == (7, path)
    assert found.recorded.startswith(before)
    assert found.now.startswith(now)


def test_every_decision_that_differs_is_named(journal, tmp_path):
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record in [record for record in records if record["entry"] == "decided"][:3]:
        record["decision"]["revision"] = 999
    path = tmp_path / "tampered.jsonl"
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    result = run("replay", str(path))
    assert result.exit_code == 1
    assert result.stdout.count("revision: recorded 999") == 3
    assert json.loads(run("replay", str(path), "-o", "json").stdout)["different"] == 3


def test_a_directory_is_replayed_file_by_file(journal, tmp_path):
    lines = journal.read_text().splitlines(keepends=True)
    (tmp_path / "decisions-000001.jsonl").write_text("".join(lines[:9]))
    (tmp_path / "decisions-000002.jsonl").write_text("".join([lines[0], *lines[9:]]))
    whole = json.loads(run("replay", str(journal), "-o", "json").stdout)
    assert json.loads(run("replay", str(tmp_path), "-o", "json").stdout) == whole
    both = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    (tmp_path / "both").write_text(both)
    assert json.loads(run("replay", str(tmp_path / "both"), "-o", "json").stdout) == whole


def test_what_is_missing_or_not_decided_again_is_told(journal, tmp_path):
    lines = journal.read_text().splitlines(keepends=True)
    number = next(index for index, line in enumerate(lines) if '"entry":"decided"' in line)
    beside = {**json.loads(lines[number]), "beside": "moves that were asked for"}
    path = tmp_path / "run.jsonl"
    path.write_text("".join([lines[0], '{"entry":"dropped","entries":3}\n', json.dumps(beside) + "\n", lines[number]]))
    result = run("replay", str(path))
    assert result.exit_code == 0
    assert "1 decisions, all the same; 1 more include moves" in result.stdout
    assert "3 entries were dropped" in result.stdout


def test_an_empty_directory_is_no_journal(tmp_path):
    result = run("replay", str(tmp_path))
    assert result.exit_code == 2
    assert "decisions-*.jsonl" in result.stderr


def test_a_cluster_is_not_asked_for_its_journal():
    result = CliRunner().invoke(cli, ["replay"], obj=Engine.KUBERNETES, catch_exceptions=False)
    assert result.exit_code == 2
    assert "kubectl sterna replay -" in result.stderr


def test_without_a_path_the_journal_of_this_machine_is_replayed(journal, tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_HOME", str(tmp_path))
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "decisions-000001.jsonl").write_bytes(journal.read_bytes())
    assert "all the same" in run("replay").stdout


def test_standard_input_is_read(journal):
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "replay", "-"]
    done = subprocess.run(command, stdin=journal.open("rb"), capture_output=True, text=True, check=True)
    assert "all the same" in done.stdout
