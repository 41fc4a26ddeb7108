"""A scheduler in this very process, asked by calling it.

It lives on an event loop in a thread of its own, so the thread that asks stays synchronous and Ctrl-C ends a wait.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from sterna.interfaces.client.client import Question
from sterna.interfaces.log_stream import log_stream
from sterna.interfaces.scheduler_port import LogSelection, Scheduler
from sterna.model.errors import EngineUnavailable, InvalidRequest

DEADLINE_S = 60.0  # a large cluster is listed page by page

_ENDS_WITHIN_S = 5.0

T = TypeVar("T")
Opening = Callable[[], AbstractAsyncContextManager[Scheduler]]


class InProcess:
    """Opened with the first question. `close` gives back what `opening` took."""

    def __init__(self, opening: Opening, *, whom: str, deadline_s: float = DEADLINE_S) -> None:
        self._opening = opening
        self._whom = whom  # what is asked, as error messages name it
        self._deadline_s = deadline_s
        self._thread: threading.Thread | None = None
        self._closed = False
        self._opened: Future[tuple[asyncio.AbstractEventLoop, Scheduler, asyncio.Event]] = Future()

    def ask(self, question: Question[T], *, within_s: float | None = None) -> T:
        return self._run(question, within_s or self._deadline_s)

    def logs(self, wanted: LogSelection) -> Iterator[bytes]:
        parts = self._run(lambda scheduler: _begun(scheduler, wanted), self._deadline_s)
        try:
            while part := self._run(lambda _: parts.next(), None):
                yield part
        finally:
            if not self._closed:
                self._run(lambda _: parts.leave(), _ENDS_WITHIN_S)

    def shutdown(self, *, leave_jobs: bool) -> None:
        expected = "nothing: no engine of this process runs jobs, so there is none to stop"
        raise InvalidRequest(field="shutdown", value=leave_jobs, expected=expected)

    def close(self) -> None:
        if self._thread is None or not self._opened.done() or self._opened.exception() is not None:
            return
        self._closed = True
        loop, _, leaving = self._opened.result()
        loop.call_soon_threadsafe(leaving.set)
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self, question: Callable[[Scheduler], Coroutine[Any, Any, T]], within_s: float | None) -> T:
        """On the scheduler's loop, while this thread waits. None: for as long as it takes."""
        loop, scheduler = self._scheduler(within_s)
        if self._closed:
            raise self._gone()
        asked = asyncio.run_coroutine_threadsafe(question(scheduler), loop)
        try:
            return asked.result(within_s)
        except CancelledError:
            raise self._gone() from None
        except TimeoutError:
            raise self._late(within_s) from None
        finally:
            if not asked.done():  # out of time, or interrupted
                asked.cancel()

    def _scheduler(self, within_s: float | None) -> tuple[asyncio.AbstractEventLoop, Scheduler]:
        if self._thread is None:
            self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
            self._thread.start()
        try:
            loop, scheduler, _ = self._opened.result(within_s)
        except TimeoutError:
            raise self._late(within_s) from None
        return loop, scheduler

    def _late(self, within_s: float | None) -> EngineUnavailable:
        waited = "" if within_s is None else f" within {within_s:g} s"
        return EngineUnavailable(f"{self._whom} did not answer{waited}", retry_after_s=1.0)

    def _gone(self) -> EngineUnavailable:
        return EngineUnavailable(f"{self._whom} is not asked any more", retry_after_s=1.0)

    async def _live(self) -> None:
        leaving = asyncio.Event()
        try:
            async with self._opening() as scheduler:
                self._opened.set_result((asyncio.get_running_loop(), scheduler, leaving))
                await leaving.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)  # the thread that asks is told why


class _Parts:
    """A stream, taken part by part by tasks of their own, and left at any moment."""

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        self._content = content
        self._taking: asyncio.Task[Any] | None = None

    async def next(self) -> bytes:
        """The next part that is not empty. Empty: that was all."""
        self._taking = asyncio.current_task()
        async for part in self._content:
            if part:
                return part
        return b""

    async def leave(self) -> None:
        """Whether all of it was read or not."""
        if self._taking is not None and not self._taking.done():
            self._taking.cancel()
            await asyncio.wait([self._taking])
        await self._content.aclose()


async def _begun(scheduler: Scheduler, wanted: LogSelection) -> _Parts:
    return _Parts(await log_stream(scheduler, wanted))
