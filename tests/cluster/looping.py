"""An event loop on a thread of its own: what plays a part in the background while a test goes on.

So one object serves plain tests and asynchronous ones alike, whatever their own loop is doing meanwhile.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], *, patience_s: float = 300.0) -> T:
        """The result of `work`, done over there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(patience_s)

    def stop(self) -> None:
        """After this nothing runs there any more."""
        self.run(_cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
