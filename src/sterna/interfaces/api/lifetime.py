"""An engine's API from its first answer to its last: serves until a signal or a request says stop."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sterna.engines.door.household import Household
from sterna.interfaces.api.api_server import serving
from sterna.interfaces.api.engine_home import Endpoint
from sterna.interfaces.scheduler_port import Scheduler

_STOP, _LEAVE = False, True  # are training processes left alive?
_SIGNALS = {
    signal.SIGTERM: _STOP,
    signal.SIGINT: _STOP,
    signal.SIGHUP: _LEAVE,  # the terminal was closed, which is no request to stop training
}


class ReportedScheduler(Scheduler, Protocol):
    """A scheduler that is also reported to, through a door."""

    @property
    def household(self) -> Household: ...


async def serve_until_told(
    scheduler: Scheduler,
    *,
    home: Path,
    listener: socket.socket,
    ready: Callable[[Endpoint], Awaitable[None]],
    household: Household | None = None,
) -> bool:
    """Whether training processes are to be left alive when the engine goes. `ready` is called once it answers."""
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def stop(leave_jobs: bool) -> None:
        if not told.done():
            told.set_result(leave_jobs)

    with _signals(stop):
        async with serving(scheduler, home=home, listener=listener, stop=stop, household=household) as endpoint:
            await ready(endpoint)
            return await told


@contextmanager
def _signals(stop: Callable[[bool], None]) -> Iterator[None]:
    """The first signal stops in good order. Later ones mean what they always mean."""
    loop = asyncio.get_running_loop()
    for number, leave_jobs in _SIGNALS.items():
        loop.add_signal_handler(number, stop, leave_jobs)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
