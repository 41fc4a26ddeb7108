"""The package as users get it: a wheel in an environment that has nothing else. The demo runs from there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sterna import __version__
from tests.e2e.up import ROOT

PATIENCE_S = 900.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (found,) = folder.iterdir()
    return found


def environment(place: Path, wheel: Path, extra: str) -> Path:
    """A new one with the wheel; its programs' folder."""
    run(sys.executable, "-m", "venv", place)
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", f"{wheel}{extra}")
    return place / "bin"


def run(*command: object, cwd: Path | None = None) -> str:
    """Away from the sources, so that nothing is found there by chance."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd or "/", env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "imports"),
    [
        pytest.param("[kubernetes]", "msgspec", id="with what a cluster needs"),
        pytest.param("[torch]", "torch", id="with PyTorch"),
    ],
)
def test_the_wheel_runs_in_an_environment_of_its_own(extra, imports, wheel, tmp_path):
    programs = environment(tmp_path / "environment", wheel, extra)
    assert run(programs / "sterna", "--version") == f"{__version__}\n"
    run(programs / "python", "-c", f"import sterna.training, {imports}")
    if extra == "[kubernetes]":
        assert "kubectl-sterna" in run(programs / "kubectl-sterna", "--help")


@pytest.mark.slow
def test_the_demo_of_a_bare_wheel_ends_by_itself_with_every_job_finished_and_no_step_lost(wheel, tmp_path):
    programs = environment(tmp_path / "environment", wheel, "")
    assert run(programs / "sterna", "--version") == f"{__version__}\n"
    run(programs / "python", "-c", "import sterna.training")
    places = {name: tmp_path / name for name in ("figures.json", "page.html", "picture.svg")}
    options = ["--report", places["figures.json"], "--page", places["page.html"], "--figure", places["picture.svg"]]
    shown = run(programs / "sterna", "demo", *options, cwd=tmp_path)
    found = json.loads(places["figures.json"].read_text())
    assert (found["jobs"], found["succeeded"], found["stepsLost"], found["restarts"]) == (6, 6, 0, 0)
    assert found["resizes"] > 0
    assert found["migrations"] + found["preemptions"] > 0, "the drain took nothing away"
    assert all(move["downtimeSeconds"] < 60 for move in found["moves"] if move["phase"] == "Succeeded")
    assert places["picture.svg"].read_text().startswith("<svg")
    assert "6 of 6 jobs finished" in shown
    assert "<dd>6 of 6</dd>" in places["page.html"].read_text()
