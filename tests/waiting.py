"""Waiting for what another process, thread or task does: the one place where tests ask again and again.

What can be waited for by itself (an event, a queue, the end of a process) is waited for by itself, and not here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0


def until(
    holds: Callable[[], T],
    what: str = "what a test waits for",
    *,
    patience_s: float = PATIENCE_S,
    every_s: float = 0.01,
    story: Callable[[], object] = lambda: "",
) -> T:
    """The first true answer of `holds`. `story` is what a failure shows."""
    until_s = time.monotonic() + patience_s
    while not (answer := holds()):
        assert time.monotonic() < until_s, f"never: {what}\n{story()}"
        time.sleep(every_s)
    return answer


async def until_async(
    holds: Callable[[], Any],
    what: str = "what a test waits for",
    *,
    patience_s: float = PATIENCE_S,
    every_s: float = 0.01,
    story: Callable[[], object] = lambda: "",
) -> Any:
    """The same, while other tasks run. What `holds` and `story` return may have to be awaited."""
    until_s = time.monotonic() + patience_s
    while True:
        asked = holds()
        answer = await asked if isinstance(asked, Awaitable) else asked
        if answer:
            return answer
        if time.monotonic() > until_s:
            told = story()
            raise AssertionError(f"never: {what}\n{await told if isinstance(told, Awaitable) else told}")
        await asyncio.sleep(every_s)


def stays(holds: Callable[[], object], what: str, *, for_s: float) -> None:
    """Fails as soon as `holds` does no more, within so long."""
    end_s = time.monotonic() + for_s
    until(partial(_is_over, holds, what, end_s), patience_s=for_s + PATIENCE_S)


async def stays_async(holds: Callable[[], object], what: str, *, for_s: float) -> None:
    """The same, while other tasks run."""
    end_s = time.monotonic() + for_s
    await until_async(partial(_is_over, holds, what, end_s), patience_s=for_s + PATIENCE_S)


def _is_over(holds: Callable[[], object], what: str, end_s: float) -> bool:
    assert holds(), f"no more: {what}"
    return time.monotonic() >= end_s


async def others_run(turns: int = 1) -> None:
    """Lets the other tasks of this event loop run, so many times; no time passes."""
    for _ in range(turns):
        await asyncio.sleep(0)


def paced(step_s: float) -> None:
    """A step of a training program that only plays: it takes so long, and does nothing."""
    time.sleep(step_s)
