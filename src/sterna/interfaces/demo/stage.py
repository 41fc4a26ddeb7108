"""Sets the stage and clears it: an engine of its own in a directory of its own, both gone afterwards."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sterna
from sterna.interfaces.client.client import Client
from sterna.interfaces.demo.play import Play, patiently
from sterna.interfaces.demo.story import GPUS_PER_NODE, NODES, RATE_LIMIT_S
from sterna.model.errors import EngineRefused, InvalidRequest

_STARTS_WITHIN_S = 60.0
_LEAVES_WITHIN_S = 60.0

PlayFor = Callable[[Callable[..., None], Callable[..., None]], Play]


@contextmanager
def staged(keep: str | None) -> Iterator[PlayFor]:
    """An engine with three virtual nodes, and a play that can be run on it. Everything is stopped at the end."""
    home = Path(keep) if keep else Path(tempfile.mkdtemp(prefix="sterna-demo-"))
    home.mkdir(parents=True, exist_ok=True)
    script = trainer()
    engine = _started(home)
    try:
        client = Client(str(home))
        patiently(
            lambda: _alive(engine, client, home),
            until_s=time.monotonic() + _STARTS_WITHIN_S,
            clock=time.monotonic,
            sleep=time.sleep,
        )
        yield lambda on_events, on_look: Play(
            engine=client,
            python=sys.executable,
            script=str(script),
            cwd=str(script.parent),
            on_events=on_events,
            on_look=on_look,
        )
    finally:
        _stopped(engine)
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def trainer() -> Path:
    """The NumPy example: beside the package where it was installed, in the checkout where it was not."""
    package = Path(sterna.__file__).parent
    for directory in (package / "examples", package.parent.parent / "examples"):
        if (script := directory / "numpy_train.py").exists():
            return script
    raise InvalidRequest(
        field="examples", value=str(package), expected="numpy_train.py to be installed with the package"
    )


def _started(home: Path) -> "subprocess.Popen[bytes]":
    command = [
        *(sys.executable, "-m", "sterna.interfaces.cli.main", "up", "--home", str(home)),
        *("--nodes", str(NODES), "--gpus-per-node", str(GPUS_PER_NODE)),
        *("--policy", "elastic-fifo", "--rate-limit", f"{RATE_LIMIT_S:g}s"),
    ]
    with open(home / "up.log", "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def _alive(engine: "subprocess.Popen[bytes]", client: Client, home: Path) -> Any:
    if engine.poll() is not None:
        said = (home / "up.log").read_text(errors="replace").strip().splitlines()[-3:]
        raise EngineRefused(f"the engine ended at once: {' '.join(said)}")
    return client.health()


def _stopped(engine: "subprocess.Popen[bytes]") -> None:
    engine.send_signal(signal.SIGTERM)
    try:
        engine.wait(_LEAVES_WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(engine.pid, signal.SIGKILL)
        engine.wait()
