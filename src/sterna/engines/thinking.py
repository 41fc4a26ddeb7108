"""Decisions beside the event loop: a thread makes them, so that everything else is answered meanwhile.

A decision is a pure function of a snapshot, whose values never change. What the core remembers between two decisions
(`placement/room.py`, functions that keep their latest answers) is used by one thread at a time, since there is only
one: a decision whose asker is gone comes to its end before the next one begins.

Every decision, not only those that are expected to take long: handing one over costs a fraction of a millisecond, and
no estimate foresees the request that makes the next one a thousand times as long.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Thinker:
    """Implements `Think`."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decision")

    async def __call__(self, decision: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, decision)
