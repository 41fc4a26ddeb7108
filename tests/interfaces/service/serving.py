"""An API that really listens, in a thread of its own, and the processes and raw bytes that tests throw at it."""

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sterna.interfaces.api.api_server import serving
from sterna.interfaces.api.engine_home import Endpoint, read_token
from sterna.interfaces.api.loopback_listener import listening
from sterna.interfaces.client import Client
from sterna.interfaces.client.in_process import InProcess
from sterna.interfaces.scheduler_port import Scheduler
from tests.interfaces.service.fake import FakeScheduler
from tests.waiting import until

SOON_S = 20.0  # everything that is waited for in a test comes within this, or the test fails

COMMAND = [sys.executable, "-m", "sterna.interfaces.cli.main"]


@dataclass
class Service:
    """A running API and what is behind it."""

    home: Path
    scheduler: FakeScheduler
    endpoint: Endpoint
    loop: asyncio.AbstractEventLoop
    stops: list[bool] = field(default_factory=list)  # what shutdown was asked with

    @property
    def client(self) -> Client:
        return Client(str(self.home))

    @property
    def token(self) -> str:
        return read_token(self.home)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """In the loop of the scheduler, which is nobody else's to touch."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(SOON_S)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """A request as a stranger would make it: status, JSON, headers. The token is added unless one is given."""
        sent = {"authorization": f"Bearer {self.token}", **{name.replace("_", "-"): v for name, v in headers.items()}}
        connection = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port, timeout=SOON_S)
        try:
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            response = connection.getresponse()
            content = response.read()
            is_json = content and "json" in response.headers.get("content-type", "")  # a HEAD is answered without one
            record = json.loads(content) if is_json else content
            return response.status, record, {name.lower(): value for name, value in response.headers.items()}
        finally:
            connection.close()

    def throw(self, content: bytes) -> bytes:
        """Bytes at the port, and whatever comes back until it closes."""
        with socket.create_connection((self.endpoint.host, self.endpoint.port), timeout=SOON_S) as sock:
            sock.sendall(content)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while part := sock.recv(1 << 16):
                answer += part
        return answer


@contextmanager
def service(home: Path, scheduler: Callable[[], FakeScheduler] = FakeScheduler) -> Iterator[Service]:
    started: list[Service] = []
    ready, leave = threading.Event(), asyncio.Event()

    async def main() -> None:
        stops: list[bool] = []
        engine = scheduler()
        checked: Scheduler = engine  # the fake is held to the port by the type checker, too
        with listening(0) as listener:
            async with serving(checked, home=home, listener=listener, stop=stops.append) as endpoint:
                started.append(Service(home, engine, endpoint, asyncio.get_running_loop(), stops))
                ready.set()
                await leave.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(SOON_S)
    try:
        yield started[0]
    finally:
        started[0].loop.call_soon_threadsafe(leave.set)
        thread.join(SOON_S)
        assert not thread.is_alive()


@contextmanager
def in_process(*, deadline_s: float = SOON_S) -> Iterator[tuple[Client, FakeScheduler]]:
    """A client of a scheduler in this process, and the scheduler, which lives on the client's own loop."""
    made: list[FakeScheduler] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[Scheduler]:
        made.append(FakeScheduler())
        yield made[0]

    with closing(Client(line=InProcess(opening, whom="the scheduler", deadline_s=deadline_s))) as client:
        assert client.health()
        yield client, made[0]


def sterna(home: Path, *arguments: str, stdin: str | None = None, **more: Any) -> "subprocess.CompletedProcess[str]":
    """The command as a process, as people run it."""
    env = {**os.environ, "STERNA_HOME": str(home), "NO_COLOR": "1"}
    timeout_s = more.pop("timeout_s", 120.0)
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, env=env, timeout=timeout_s, **more
    )


def eventually(what: Callable[[], Any], *, within_s: float = SOON_S, every_s: float = 0.05) -> Any:
    """The first true value; the last false one, where none came in time."""
    with contextlib.suppress(AssertionError):
        return until(what, patience_s=within_s, every_s=every_s)
    return what()


def manifest(
    name: str,
    *,
    least: int = 1,
    most: int = 1,
    namespace: str | None = None,
    labels: dict[str, str] | None = None,
    script: str = "",
) -> str:
    """An elastic job whose workers sleep, unless they are given something else to do."""
    where = f"\n  namespace: {namespace}" if namespace else ""
    where += f"\n  labels: {json.dumps(labels)}" if labels else ""
    command = json.dumps([sys.executable, "-u", "-c", script or "import signal; signal.pause()"])
    return f"""apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata:
  name: {name}{where}
spec:
  workers: {{min: {least}, max: {most}}}
  runPolicy: {{backoffLimit: 0}}
  template:
    spec:
      terminationGracePeriodSeconds: 2
      containers:
        - name: trainer
          command: {command}
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
