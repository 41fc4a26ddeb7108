"""A real engine as a process, for the tests that ask it what they ask the one in memory."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sterna.interfaces.api.engine_home import read_endpoint
from sterna.interfaces.client import Client
from tests.interfaces.service.serving import COMMAND, eventually

_STARTS_WITHIN_S = 60.0
_ENDS_WITHIN_S = 60.0


@contextmanager
def engine(home: Path, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """`sterna up` with two virtual nodes of two GPUs, and its end."""
    home.mkdir(parents=True, exist_ok=True)
    options = arguments or ("--nodes", "2", "--gpus-per-node", "2", "--rate-limit", "0.1s")
    with open(home / "up.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*COMMAND, "up", "--home", str(home), *options], stdout=log, stderr=subprocess.STDOUT, text=True
        )
    try:
        came = eventually(lambda: process.poll() is not None or _answers(home, process.pid), within_s=_STARTS_WITHIN_S)
        assert came, "it did not come up"
        assert process.poll() is None, (home / "up.log").read_text()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _answers(home: Path, pid: int) -> bool:
    endpoint = read_endpoint(home)
    return endpoint is not None and endpoint.pid == pid and bool(Client(str(home)).health()["ok"])
