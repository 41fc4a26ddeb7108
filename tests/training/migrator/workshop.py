"""What these tests share: migrators on files of their own, stubs, the toy trainer as a process, bounded waiting."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sterna.training.migrator.shim import Migrator
from tests import waiting
from tests.training.forked import Forked

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "src"
SAID = "said"  # what scripts say, in their directory
PATIENCE_S = 120.0  # the machine may be busy with everything else


class Stub:
    """The least that can be registered."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


def environment(directory: Path, **more: str) -> dict[str, str]:
    return {
        "MIGRATION_CKPT_PATH": str(directory / "migration.pth"),
        "MIGRATION_SIGNAL_PATH": str(directory / "signal"),
        **more,
    }


def launch(directory: Path, **variables: Any) -> Migrator:
    """A new process, as far as the files can tell, with these variables registered."""
    migrator = listed(Migrator(environment=environment(directory)))
    for key, variable in variables.items():
        migrator.register(key, variable)
    return migrator


_launched: list[Migrator] = []


def listed(migrator: Migrator) -> Migrator:
    """To be quietened at the end of the test: its thread would otherwise listen for the rest of the session."""
    _launched.append(migrator)
    return migrator


def quieten() -> None:
    while _launched:
        begun = _launched.pop()._begun
        if begun is not None:
            begun.listener.stop()


def until(condition: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """The first true answer of `condition`."""
    return waiting.until(condition, what, patience_s=patience_s)


def process_environment(directory: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(SOURCES), str(SOURCES.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **environment(directory), "PYTHONPATH": path, **more}


@contextmanager
def toy_trainer(directory: Path, *arguments: str, **variables: str) -> Iterator[Forked]:
    """The toy trainer on `directory`; it is killed at the end of the block if it still runs. It talks to SAID."""
    process = forked(directory, "toy_trainer.py", "--log", str(directory / "steps.jsonl"), *arguments, **variables)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=PATIENCE_S)


def forked(directory: Path, script: str, *arguments: str, **variables: str) -> Forked:
    """A script of this folder on `directory`, in a process that has torch already."""
    environment = process_environment(directory, **variables)
    return Forked(HERE / script, arguments, environment=environment, log=directory / SAID, cwd=directory)


def said_by(directory: Path, script: str, *arguments: str, patience_s: float) -> str:
    """What such a script says until it ends well."""
    process = forked(directory, script, *arguments)
    try:
        code = process.wait(timeout=patience_s)
    finally:
        process.kill()
    said = (directory / SAID).read_text()
    assert code == 0, said
    return said


def events(directory: Path, event: str | None = None) -> list[dict[str, Any]]:
    """What the toy trainer has noted so far."""
    path = directory / "steps.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    noted = [json.loads(line) for line in lines if line.endswith("\n")]
    return [one for one in noted if event is None or one["event"] == event]


def run_hook(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sterna.training.migrator.prestop", *arguments],
        env=process_environment(directory, **variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
