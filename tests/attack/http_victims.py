"""The processes that are attacked, as people run them: `sterna monitor`, and `sterna up` with its API and its door."""

import contextlib
import http.client
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sterna.interfaces.api.engine_home import read_endpoint, read_token
from sterna.protocol.tokens import job_token
from tests.attack.http_corpus import SOON_S, Victim
from tests.waiting import until

T = TypeVar("T")

SECRET = "the-secret-of-these-attacks"
STERNA = Path(sys.executable).with_name("sterna")
QUICK = "head_s=1.5,body_s=1.5,idle_s=1.5,answer_s=1.5"  # deadlines that a test can wait for


def asked(port: int, method: str, path: str, token: str | None, body: bytes | None = None) -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON_S)
    try:
        line.request(method, path, body, {} if token is None else {"Authorization": f"Bearer {token}"})
        answer = line.getresponse()
        answer.read()
        return answer.status
    finally:
        line.close()


@contextlib.contextmanager
def monitor(directory: Path, *, limits: str = "", files: int | None = None) -> Iterator[tuple[Victim, int]]:
    """And the port of its probes."""
    (directory / "token").write_text(SECRET)
    command = [STERNA, "monitor", "--token-file", directory / "token", "--port", "0", "--node", "node-1"]
    command += ["--scheduler", "127.0.0.1:9", "--log-format", "json", "--health-port", "0"]
    token = job_token(SECRET, namespace="team", job="train", uid="u1")
    report = json.dumps({"pod": "train-worker-0", "value": 0.5}).encode()
    with _running(command, directory / "log", limits, files) as popen:
        said = _line(popen, directory / "log", "monitor listens")
        port, probes = int(said["port"]), int(said["health_port"])
        yield Victim(popen, port, "/monitor", token, lambda: asked(port, "POST", "/monitor", token, report)), probes


@contextlib.contextmanager
def engine(directory: Path, *, limits: str = "", files: int | None = None) -> Iterator[tuple[Victim, Victim]]:
    """`sterna up`: its API and its door."""
    home = directory / "home"
    command = [STERNA, "up", "--home", home, "--nodes", "1", "--port", "0", "--door-port", "0"]
    with _running(command, directory / "log", limits, files) as popen:
        endpoint = _awaited(popen, directory / "log", lambda: read_endpoint(home))
        token, port = read_token(home), endpoint.port
        door = next(iter(_listening(popen.pid) - {port}))
        yield (
            Victim(popen, port, "/v1/jobs", token, lambda: asked(port, "GET", "/v1/health", token)),
            Victim(popen, door, "/reports", token, lambda: asked(door, "GET", "/cluster-info", token)),
        )


@contextlib.contextmanager
def _running(command, log: Path, limits: str, files: int | None) -> "Iterator[subprocess.Popen[bytes]]":
    environment = {**os.environ, **({"STERNA_HTTP_LIMITS": limits} if limits else {})}
    limited = None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with log.open("wb") as sink:
        popen = subprocess.Popen(list(map(str, command)), stdout=sink, stderr=sink, env=environment, preexec_fn=limited)
    try:
        yield popen
    finally:
        popen.terminate()
        timer = threading.Timer(SOON_S, popen.kill)
        timer.start()
        popen.wait()
        timer.cancel()


def _line(popen, log: Path, phrase: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        lines = [line for line in log.read_text().splitlines() if phrase in line]
        return json.loads(lines[0]) if lines else None

    return _awaited(popen, log, found)


def _awaited(popen, log: Path, what: Callable[[], T | None]) -> T:
    def looked() -> T | None:
        assert popen.poll() is None, log.read_text()
        return what()

    found = until(looked, "the process says where it listens", patience_s=SOON_S, every_s=0.05, story=log.read_text)
    assert found is not None
    return found


def _listening(pid: int) -> set[int]:
    """Ports that the process listens on."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
