"""Processes that are forked from a server which has imported what they need: forty of them import torch once.

Each is a process of its own from then on, with an environment, signals and an end like any other.
"""

import atexit
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["numpy", "tests.training.run.warm", "tests.training.run.programs"])


class Forked:
    """`python PROGRAM ARGUMENT...`, with the verbs of `subprocess.Popen`."""

    def __init__(
        self, program: Path, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path, cwd: Path
    ) -> None:
        settings = (program, list(arguments), dict(environment), log, cwd)
        self._process: ForkServerProcess = FORKING.Process(target=_called, args=settings)
        self._process.start()

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self.poll()
        assert code is not None, f"it still runs after {timeout:g} s"
        return code


def _called(program: Path, arguments: list[str], environment: dict[str, str], log: Path, cwd: Path) -> None:
    """In the new process."""
    with log.open("ab") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = [str(program), *arguments]
    try:
        runpy.run_path(str(program), run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out, and a training process says its last word there
