"""A warden for a test: real processes in a home of their own, and nothing of them left when the test ends."""

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from sterna.engines.local.launch.warden.client import WardenClient, connect_or_start
from sterna.engines.local.launch.warden.values import Launch, ProcessState
from sterna.engines.local.launch.warden.workers.leftovers import mark_of, processes
from tests.waiting import until, until_async

PATIENCE_S = 30.0  # of every wait; a condition that comes true at once costs nothing
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Keeping:
    """The home of one test, the clients it opened, and everything it heard."""

    def __init__(self, home: Path, *, cgroups: str = "auto") -> None:
        self.home = home
        self.cgroups = cgroups
        self.heard: list[ProcessState] = []
        self.lost = 0
        self._clients: list[WardenClient] = []

    async def client(self, *, idle_s: float = 60.0) -> WardenClient:
        client = await connect_or_start(
            self.home, on_exit=self.heard.append, on_lost=self._note_loss, idle_s=idle_s, cgroups=self.cgroups
        )
        self._clients.append(client)
        return client

    def launch(self, name: str, *argv: str, **fields: Any) -> Launch:
        """A launch of `argv`, or of a shell line when there is only one word with spaces in it."""
        command = ("sh", "-c", argv[0]) if len(argv) == 1 and " " in argv[0] else argv
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        given = {"env": ENV, "cwd": str(self.home), "log_path": str(self.log(name))}
        return Launch(id=name, argv=command, **{**given, **fields})

    def python(self, name: str, program: str, **fields: Any) -> Launch:
        return self.launch(name, sys.executable, "-I", "-S", "-c", program, **fields)

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def run(self, test: Callable[[WardenClient], Coroutine[Any, Any, None]], *, idle_s: float = 60.0) -> None:
        async def inside() -> None:
            await test(await self.client(idle_s=idle_s))

        asyncio.run(inside())

    def end(self) -> None:
        """Stop everything, and check that nothing is left and that the warden met no trouble it did not expect."""
        asyncio.run(self._leave())
        eventually_now(lambda: not marked_in(self.home), f"processes are left: {marked_in(self.home)}")
        log = self.home / "warden" / "log"
        told = log.read_text() if log.exists() else ""
        assert "Traceback" not in told, told

    async def _leave(self) -> None:
        if not (self.home / "warden.sock").exists():
            return
        await (await self.client()).leave(kill=True, grace_s=0.0)

    def _note_loss(self) -> None:
        self.lost += 1


def token_of(home: Path) -> str:
    found = home.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}"


def control_groups(home: Path) -> list[Path]:
    """Everything below the group of this home's warden, in whichever hierarchy it is, and that group itself.

    `os.walk` passes over groups of other tests that go away meanwhile; `Path.glob` raises on them.
    """
    name = f"sterna-{token_of(home)}"
    return sorted(Path(folder) for folder, _, _ in os.walk("/sys/fs/cgroup") if name in Path(folder).parts)


def marked_in(home: Path) -> list[int]:
    """Everything a warden of this home started that still runs, however deep."""
    if not home.exists():
        return []
    token = token_of(home)
    return [found.pid for found in processes() if mark_of(found.pid).startswith(f"{token}/")]


def is_running(pid: int) -> bool:
    """Alive and not only waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def eventually(holds: Callable[[], Any], what: str) -> Any:
    return await until_async(holds, what, patience_s=PATIENCE_S)


def eventually_now(holds: Callable[[], Any], what: str) -> Any:
    return until(holds, what, patience_s=PATIENCE_S)


async def ended(client: WardenClient, name: str) -> ProcessState:
    """The state of a process once it has ended, by asking: what is pushed is another test's subject."""

    async def over() -> ProcessState | None:
        state = next(state for state in (await client.list_all()).processes if state.id == name)
        return None if state.alive else state

    state: ProcessState = await until_async(over, f"{name} ends", patience_s=PATIENCE_S)
    return state


async def written(path: Path, pattern: str = r"\S") -> str:
    """What a process wrote, once it matches."""

    def content() -> str:
        text = path.read_text() if path.exists() else ""
        return text if re.search(pattern, text) else ""

    return str(await eventually(content, f"{path.name} has no {pattern!r}"))


async def numbers(path: Path, count: int) -> list[int]:
    """Pids that processes wrote to a file, once there are `count`."""

    def found() -> list[int]:
        words = path.read_text().split() if path.exists() else []
        return [int(word) for word in words] if len(words) >= count else []

    return list(await eventually(found, f"{path.name} has fewer than {count} numbers"))


def kill_9(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def quoted(path: Path) -> str:
    return shlex.quote(str(path))


async def gather(*calls: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*calls))
