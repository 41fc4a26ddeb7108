"""What the operator decided before a real API server is decided again by `kubectl sterna replay`."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sterna.engines.kubernetes.status.event_recorder import DECISION
from sterna.interfaces.cli.engine_choice import Engine
from sterna.interfaces.cli.main import cli
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab


def entries_in(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.iterdir()) for line in path.read_text().splitlines()]


def test_the_journal_of_an_operator_replays_and_its_ids_are_those_of_logs_and_events(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    lab.nodes.add(2, gpus=2)
    running = lab.start(journal=tmp_path)
    lab.submit(tfjob("first", gpus=1))
    lab.until_true("TFJob", "first", "Running")
    lab.submit(tfjob("second", gpus=1))
    lab.until_true("TFJob", "second", "Running")
    lab.until_rest()
    assert running.operator.journal is not None
    assert running.operator.journal.flush(60)
    result = CliRunner().invoke(cli, ["replay", str(tmp_path), "-o", "json"], obj=Engine.KUBERNETES)
    found = json.loads(result.stdout)
    assert (result.exit_code, found["same"], found["dropped"]) == (0, True, 0), result.stdout
    assert found["decisions"] >= 2
    kept = {entry["id"] for entry in entries_in(tmp_path) if entry["entry"] == "decided"}
    lines = [record for record in caplog.records if record.getMessage() == "job started"]
    assert {vars(line)["job"] for line in lines} == {f"{lab.namespace}/first", f"{lab.namespace}/second"}
    for line in lines:
        name, decision = vars(line)["job"].partition("/")[2], vars(line)["decision"]
        assert decision in kept
        told = {event["metadata"].get("annotations", {}).get(DECISION) for event in lab.events(name)}
        assert decision in told
