"""An engine that runs on when its terminal is gone: started, waited for, and its output shown if it does not start."""

import os
import subprocess
import sys
import time
from pathlib import Path

from sterna.interfaces.api.engine_home import Endpoint, read_endpoint
from sterna.model.errors import EngineRefused, InvalidRequest, SternaError

_STARTS_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.05
_LINES_SHOWN = 5
_MISUSED = 2  # its exit code where what was asked for is wrong

LOG_NAME = "engine.log"


def start_in_background(home: Path, arguments: list[str]) -> Endpoint:
    """`sterna up` with these arguments, in a session of its own. Returns once it answers."""
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "up", *arguments]
    log = home / LOG_NAME
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as sink:
        engine = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd="/"
        )
    deadline_s = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline_s:
        endpoint = read_endpoint(home)
        if endpoint is not None and endpoint.pid == engine.pid:
            return endpoint
        if (code := engine.poll()) is not None:
            raise _refusal(log, code)
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError(f"the engine (process {engine.pid}) has not come up after {_STARTS_WITHIN_S:g} s; see {log}")


def _refusal(log: Path, code: int) -> SternaError:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    said = [line.removeprefix("error: ") for line in lines[-_LINES_SHOWN:] if not line.startswith("hint: ")]
    words = "; ".join(said) or f"it ended with exit code {code} and said nothing"
    error = InvalidRequest(field="up", value=None, expected="") if code == _MISUSED else EngineRefused("")
    error.args = (words,)
    return error
