"""The demo as the README tells people to run it."""

import json
import subprocess
import sys

import pytest

from tests.e2e.up import ROOT


@pytest.mark.slow
def test_the_demo_ends_by_itself_with_every_job_finished_and_no_step_lost(tmp_path):
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "demo"]
    places = {name: tmp_path / name for name in ("figures.json", "page.html", "picture.svg")}
    options = ["--report", places["figures.json"], "--page", places["page.html"], "--figure", places["picture.svg"]]
    shown = subprocess.run([*command, *map(str, options)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    found = json.loads(places["figures.json"].read_text())
    assert (found["jobs"], found["succeeded"], found["stepsLost"], found["restarts"]) == (6, 6, 0, 0)
    assert found["resizes"] > 0
    assert found["migrations"] + found["preemptions"] > 0, "the drain took nothing away"
    assert all(move["downtimeSeconds"] < 60 for move in found["moves"] if move["phase"] == "Succeeded")
    assert places["picture.svg"].read_text().startswith("<svg")
    assert "6 of 6 jobs finished" in shown.stdout
    assert "6 of 6 jobs finished" in places["page.html"].read_text()
