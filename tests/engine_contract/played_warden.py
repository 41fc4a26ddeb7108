"""A warden that plays its processes: they start and end when a story says so, and nothing runs.

It implements what the local engine needs of `WardenClient`. Like the real one it outlives the engine, which connects to
it again after a crash.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

from sterna.engines.local.launch.warden.values import (
    Census,
    Exited,
    Hook,
    HookEnded,
    Launch,
    Limit,
    Limits,
    ProcessPhase,
    ProcessState,
)
from tests.engine_contract.played_world import StoryClock

_TERM = 15
_PORTS_FROM = 20_000
_BY_SIGNAL = 128


class PlayedWarden:
    def __init__(self, clock: StoryClock) -> None:
        self.states: dict[str, ProcessState] = {}
        self.held_starts = 0  # launches that wait for `let_start`
        self._clock = clock
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._stops_held = False
        self._ports = count(_PORTS_FROM)
        self._given: dict[str, tuple[int, ...]] = {}
        self._on_exit: Callable[[ProcessState], None] | None = None

    async def connected(
        self,
        home: Path,
        *,
        on_exit: Callable[[ProcessState], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        cgroups: str = "auto",
    ) -> "PlayedWarden":
        """Stands for `connect_or_start`."""
        self._on_exit = on_exit
        return self

    # -- what a story does --------------------------------------------------------------------------------------------

    def hold_starts(self, *, held: bool) -> None:
        if held:
            self._may_start.clear()
        else:
            self._may_start.set()

    def hold_stops(self, *, held: bool) -> None:
        self._stops_held = held
        if not held:
            for state in self.states.values():
                if state.phase is ProcessPhase.STOPPING:
                    self.end(state.id, _BY_SIGNAL + _TERM, stopped=True)

    def end(self, process_id: str, code: int, *, stopped: bool = False) -> None:
        """It ends with this code, as a shell tells it; the engine hears of it a moment later."""
        signal = code - _BY_SIGNAL if code > _BY_SIGNAL else None
        now_s = self._clock.mono()
        end = Exited(None if signal else code, signal, now_s, now_s, False, stopped, False, 0.0, 0, f"exit code {code}")
        self.states[process_id] = state = self.states[process_id]._replace(phase=ProcessPhase.EXITED, exited=end)
        if self._on_exit is not None:
            asyncio.get_running_loop().call_soon(self._on_exit, state)

    # -- what the engine asks for -------------------------------------------------------------------------------------

    async def start(self, launch: Launch) -> ProcessState:
        if launch.id not in self.states:
            self.held_starts += 1
            try:
                await self._may_start.wait()
            finally:
                self.held_starts -= 1
            now_s = self._clock.mono()
            self.states[launch.id] = ProcessState(launch.id, ProcessPhase.RUNNING, None, now_s, now_s)
        return self.states[launch.id]

    async def stop(self, process_id: str, *, grace_s: float) -> ProcessState:
        state = self.states[process_id]
        if state.alive:
            self.states[process_id] = state = state._replace(phase=ProcessPhase.STOPPING)
            if not self._stops_held or grace_s <= 0:
                self.end(process_id, _BY_SIGNAL + _TERM, stopped=True)
        return state

    async def run_hook(self, process_id: str, hook: Hook) -> HookEnded:
        return HookEnded(hook.name, 0, None, False, "")

    async def list_all(self) -> Census:
        return Census("played", 0, tuple(self.states[name] for name in sorted(self.states)), dict(self._given))

    async def forget(self, *process_ids: str) -> None:
        for process_id in process_ids:
            self.states.pop(process_id, None)

    async def ports(self, owner_id: str, count: int) -> tuple[int, ...]:
        if len(self._given.get(owner_id, ())) != count:
            self._given[owner_id] = tuple(next(self._ports) for _ in range(count))
        return self._given[owner_id]

    async def release_ports(self, *owner_ids: str) -> None:
        for owner_id in owner_ids:
            self._given.pop(owner_id, None)

    async def limits(self) -> Limits:
        return Limits(*(Limit(False, "nothing runs here") for _ in Limits._fields))

    def close(self) -> None:
        self._on_exit = None
