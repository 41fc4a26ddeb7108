"""`sterna up` as a user starts it, and as an unlucky machine kills it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil

from sterna.interfaces.client import Client
from sterna.model.errors import EngineUnavailable
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).with_name("toy_trainer.py")
HURRIED = Path(__file__).with_name("hurried.py")
PATIENCE_S = 120.0

T = TypeVar("T")


class Up:
    """An engine in a home of its own."""

    def __init__(self, home: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        self._environment = {**os.environ, **(environment or {})}
        self.client = Client(str(home))
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", "sterna.interfaces.cli.main", "up", "--home", str(self.home), *self._options]
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home.with_name(self.home.name + ".log"), "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment
            )
        if wait:
            self.insist(self.client.health)

    def kill(self) -> None:
        """As by the kernel: no goodbye."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """In good order; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def insist(self, ask: Callable[[], T]) -> T:
        """The answer, however often the engine is away meanwhile."""
        answers: list[T] = []

        def answered() -> bool:
            with contextlib.suppress(EngineUnavailable):
                answers.append(ask())
            return bool(answers)

        until(answered, "the engine answers", patience_s=PATIENCE_S, every_s=0.05, story=self.said)
        return answers[0]

    def until(self, holds: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
        until(lambda: self.insist(holds), what, patience_s=patience_s, every_s=0.05, story=self.said)

    def job(self, name: str) -> dict[str, Any]:
        return self.insist(lambda: self.client.job(name))

    def finished(self, *names: str, patience_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        """The jobs as they ended."""
        ended = ("Succeeded", "Failed")
        self.until(
            lambda: all(self.client.job(name)["phase"] in ended for name in names),
            f"{', '.join(names)} finished",
            patience_s=patience_s,
        )
        return [self.job(name) for name in names]

    def log_of(self, name: str) -> str:
        return b"".join(self.insist(lambda: list(self.client.logs(name, every=True)))).decode()

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this home, the engine itself included."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and str(self.home) in _told(process):
                    found.append(process)
        return found

    def said(self) -> str:
        """What the engine printed and how its jobs stand: what a failing test should show."""
        log = self.home.with_name(self.home.name + ".log")
        try:
            jobs = [f"{job['name']}: {job['phase']} {job['message']}" for job in self.client.jobs()]
        except EngineUnavailable as error:
            jobs = [str(error)]
        return "\n".join([log.read_text(errors="replace")[-4000:], *jobs])


@contextlib.contextmanager
def running(home: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Up]:
    """An engine for the length of a test, and nothing of it afterwards."""
    engine = Up(home, *options, environment=environment)
    engine.start()
    try:
        yield engine
    finally:
        with contextlib.suppress(ProcessLookupError, AssertionError, subprocess.TimeoutExpired):
            engine.stop()
        for process in engine.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


def manifest(name: str, *command: str, workers: tuple[int, int] = (1, 1), gpus: int = 1, **spec: Any) -> str:
    """An ElasticJob as JSON, which is YAML too."""
    import json

    container = {
        "name": "trainer",
        "command": [*command],
        "env": [{"name": "PYTHONPATH", "value": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    body = {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {
            "workers": {"min": workers[0], "max": workers[1]},
            "template": {"spec": {"terminationGracePeriodSeconds": 20, "containers": [container]}},
            **spec,
        },
    }
    return json.dumps(body)


def toy(name: str, trace: Path, *, steps: int, step_s: float, workers: tuple[int, int] = (1, 1), **spec: Any) -> str:
    """A job that trains the toy model; it keeps its pace until there is a file `hurry` beside its trace."""
    command = (sys.executable, str(HURRIED), str(trace / "hurry"), str(TOY), str(steps), str(step_s), str(trace / name))
    return manifest(name, *command, workers=workers, **spec)


def _told(process: psutil.Process) -> str:
    return " ".join([*process.cmdline(), process.environ().get("STERNA_MAILBOX", "")])


def results_of(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("result ")]


def soak(name: str, default: int) -> int:
    """How many tries: more in a soak."""
    return int(os.environ.get(name) or default)
