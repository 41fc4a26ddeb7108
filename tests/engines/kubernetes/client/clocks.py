"""Clocks that go when the test says so: each process of a scene has its own, and one may stand still for a while."""

import asyncio

from tests.waiting import others_run


class SteppedClock:
    """`advance` wakes those whose time has come; while `paused`, time passes and nobody wakes: a stopped process."""

    def __init__(self, *, wall_s: float = 1_000_000.0, mono_s: float = 50.0) -> None:
        self.paused = False
        self._wall_s = wall_s
        self._mono_s = mono_s
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def wall(self) -> float:
        return self._wall_s

    def mono(self) -> float:
        return self._mono_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await others_run()
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._mono_s + seconds, wake))
        await wake

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._wall_s += seconds

    def advance(self, seconds: float) -> None:
        self._wall_s += seconds
        self._mono_s += seconds
        self._wake()

    def go_on(self) -> None:
        self.paused = False
        self._wake()

    def _wake(self) -> None:
        if self.paused:
            return
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._mono_s]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._mono_s]
        for _, wake in sorted(due, key=lambda sleeper: sleeper[0]):
            if not wake.done():
                wake.set_result(None)
