"""The engine's side of the warden: an asyncio client that starts it when needed, and comes back when it is lost.

Every call has a deadline. A call whose connection breaks is sent once more over a new one, because a repeat changes
nothing; only `leave` is not. What is pushed (`on_exit`) only wakes the engine: `list_all` is the truth.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sterna.engines.local.launch.warden import wire
from sterna.engines.local.launch.warden.line import Broken, Line
from sterna.engines.local.launch.warden.values import (
    Census,
    Hook,
    HookEnded,
    Launch,
    Limits,
    ProcessState,
    census_from_wire,
    hook_from_wire,
    limits_from_wire,
    state_from_wire,
    to_wire,
)
from sterna.model.errors import Conflict, EngineUnavailable, InvalidRequest, NotFound, SternaError

CALL_S = 30.0  # every answer of a warden is quick; this is for a machine that swaps
BEGIN_S = 25.0  # a dead predecessor's processes are killed first, which may take a while
RETRY_AFTER_S = 1.0


class Settings(NamedTuple):
    idle_s: float = 60.0  # how long a warden without processes and clients stays
    cgroups: str = "auto"  # or `none`, or the path of a control group handed to this user


async def connect_or_start(
    home: Path,
    *,
    on_exit: Callable[[ProcessState], None] | None = None,
    on_lost: Callable[[], None] | None = None,
    idle_s: float = 60.0,
    cgroups: str = "auto",
) -> "WardenClient":
    """A client connected to the warden of `home`, started if there is none.

    `on_exit` hears of every process that ended or failed to start, `on_lost` of a connection that broke (call
    `list_all` then: it reconnects, and names what was lost if the warden died). Both are called from the event loop
    and must not block. `idle_s` and `cgroups` (`auto`, `none`, or the path of a control group handed to this user)
    count only when a warden is started.
    """
    client = WardenClient(home, Settings(idle_s=idle_s, cgroups=cgroups), on_exit=on_exit, on_lost=on_lost)
    await client.connect()
    return client


class WardenClient:
    """One connection to the warden of a home, opened when needed. All errors are Sterna's own."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        *,
        on_exit: Callable[[ProcessState], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.home = home
        self._settings = settings
        self._on_exit = on_exit
        self._on_lost = on_lost
        self._connecting = asyncio.Lock()
        self._line: Line | None = None
        self._closed = False

    async def start(self, launch: Launch) -> ProcessState:
        """Start it, or say what became of the process of that id. Answers once its program runs or could not be run.

        A command that cannot be run is no error here: the state is FAILED and its message says why.
        """
        return state_from_wire(await self._ask("start", launch=to_wire(launch)))

    async def stop(
        self, process_id: str, *, grace_s: float, pre_stop: Hook | None = None, whole_group: bool = True
    ) -> ProcessState:
        """TERM now, KILL to everything of it `grace_s` later; the warden keeps the deadline even if the engine dies.

        Repeated: the earliest deadline holds, TERM is sent once. `grace_s` 0 kills at once. With `pre_stop`, TERM
        waits for the hook to end (run once, inside the same grace). `whole_group` False sends TERM to the leader
        alone, as Kubernetes does: children such as a data loader's workers would die of it before the leader saves.
        Answers at once; the end is told like every other.
        """
        hook = None if pre_stop is None else to_wire(pre_stop)
        answer = await self._ask("stop", id=process_id, grace_s=grace_s, pre_stop=hook, whole_group=whole_group)
        return state_from_wire(answer)

    async def run_hook(self, process_id: str, hook: Hook) -> HookEnded:
        """Run a command beside a live worker and wait for its end; a name that ran before answers as it did then."""
        answer = await self._ask("hook", within_s=hook.timeout_s + CALL_S, id=process_id, hook=to_wire(hook))
        return hook_from_wire(answer)

    async def list_all(self) -> Census:
        """Everything that runs and every end not yet forgotten."""
        return census_from_wire(await self._ask("list"))

    async def forget(self, *process_ids: str) -> None:
        """The engine has the end of these in its own state: drop it, and the ports held for them. Unknown ids pass."""
        await self._ask("forget", ids=list(process_ids))

    async def ports(self, owner_id: str, count: int) -> tuple[int, ...]:
        """Ports held for `owner_id` (a job or a worker) until released: the same ones each time it asks.

        A worker binds its port although it is held, if it sets SO_REUSEADDR, as servers do (see `ports.py`). They are
        held by this warden: one that begins after it (`Census.warden` tells) gives others.
        """
        return tuple((await self._ask("ports", id=owner_id, count=count))["ports"])

    async def release_ports(self, *owner_ids: str) -> None:
        """Give up all ports held for these. Unknown ids pass."""
        await self._ask("release", ids=list(owner_ids))

    async def limits(self) -> Limits:
        """What this machine lets the warden enforce."""
        return limits_from_wire(await self._ask("limits"))

    async def leave(self, *, kill: bool = False, grace_s: float = 10.0) -> None:
        """End the warden. With live processes: `Conflict`, unless `kill`, which stops them first and waits."""
        await self._ask("leave", repeat=False, within_s=grace_s + CALL_S, kill=kill, grace_s=grace_s)
        self.close()

    def close(self) -> None:
        """Let go of the connection; the warden and its processes live on."""
        self._closed = True
        if self._line is not None:
            self._line.drop()
            self._line = None

    async def connect(self) -> None:
        """Connect now rather than at the first call."""
        try:
            async with asyncio.timeout(CALL_S):
                await self._connected()
        except TimeoutError as error:
            raise _unavailable(f"the warden of {self.home} did not come up within {CALL_S:g} s") from error

    async def _ask(self, do: str, *, repeat: bool = True, within_s: float = CALL_S, **fields: Any) -> dict[str, Any]:
        request = {"do": do, **fields}
        try:
            async with asyncio.timeout(within_s):
                for again in (repeat, False):
                    line = await self._connected()
                    try:
                        return await line.ask(request)
                    except Broken:
                        if not again:
                            raise
                raise AssertionError("the second try returns or raises")
        except TimeoutError as error:
            raise _unavailable(f"the warden of {self.home} did not answer {do!r} within {within_s:g} s") from error
        except Broken as error:
            raise _unavailable(f"the warden of {self.home} was lost during {do!r}") from error
        except wire.Refused as refusal:
            raise _ours(refusal) from refusal

    async def _connected(self) -> Line:
        async with self._connecting:
            if self._closed:
                raise _unavailable("this connection to the warden was closed")
            while self._line is None or self._line.broken:
                self._line = await self._open() or await self._open_after_beginning()
            return self._line

    async def _open_after_beginning(self) -> Line | None:
        await begin(self.home, self._settings)
        return await self._open()  # None: it came and went, which the caller's deadline bounds

    async def _open(self) -> Line | None:
        try:
            directory = os.open(self.home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None  # a warden that begins there says what is wrong with it
        try:  # by way of the descriptor, since a socket's path has 108 bytes and a home may have more
            _, line = await asyncio.get_running_loop().create_unix_connection(
                lambda: Line(self._ended, self._lost), path=f"/proc/self/fd/{directory}/{wire.SOCKET_NAME}"
            )
        except (ConnectionError, FileNotFoundError):
            return None
        except OSError as error:
            raise _unavailable(f"the warden of {self.home} cannot be reached: {error.strerror}") from error
        finally:
            os.close(directory)
        try:
            await line.hello
        except Broken:
            return None
        except BaseException:  # above all a deadline: a listener that sends no greeting is not waited for
            line.drop()
            raise
        return line

    def _ended(self, state: ProcessState) -> None:
        if self._on_exit is not None:
            self._on_exit(state)

    def _lost(self) -> None:
        if self._on_lost is not None and not self._closed:
            self._on_lost()


async def begin(home: Path, settings: Settings) -> None:
    """Start the warden of a home; returns once one listens there. Raises EngineUnavailable, which says why none does.

    It is safe to run any number at once: the warden that takes the lock wins, the others see it listening and return.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        for directory in (home, home / wire.DIRECTORY_NAME):
            directory.mkdir(mode=0o700, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", "-X", "utf8"),  # no site-packages, nothing from the environment: it starts fast, stays small
            str(Path(__file__).with_name("__main__.py")),
            str(home.absolute()),
            json.dumps(settings._asdict()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    except OSError as error:
        raise EngineUnavailable(f"the warden of {home} cannot be started: {error}", retry_after_s=5.0) from error
    try:
        async with asyncio.timeout(BEGIN_S):
            _, said = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise EngineUnavailable(f"the warden of {home} did not start in {BEGIN_S:g} s", retry_after_s=5.0) from error
    if process.returncode != 0:
        why = said.decode(errors="replace").strip()[-2000:] or f"exit code {process.returncode}"
        raise EngineUnavailable(f"the warden of {home} did not start: {why}", retry_after_s=5.0)


def _ours(refusal: wire.Refused) -> SternaError:
    match refusal.kind:
        case "invalid":
            return InvalidRequest(field=refusal.field or "request", value=refusal.value, expected=str(refusal))
        case "unknown":
            return NotFound("process", str(refusal.value))
        case "conflict":
            return Conflict(str(refusal))
        case _:
            return _unavailable(str(refusal))


def _unavailable(message: str) -> EngineUnavailable:
    return EngineUnavailable(message, retry_after_s=RETRY_AFTER_S)
