"""A scheduler in this very process, asked through the same paths as one behind HTTP: nothing listens anywhere.

The scheduler lives on an event loop in a thread of its own, so whoever asks stays synchronous and Ctrl-C ends a wait.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from sterna.interfaces.api.app import build_routes
from sterna.interfaces.api.port import Scheduler
from sterna.interfaces.api.problems import error_of
from sterna.interfaces.client.connection import Query, target
from sterna.model.errors import EngineUnavailable, InvalidRequest

DEADLINE_S = 60.0  # a large cluster is listed page by page

_ENDS_WITHIN_S = 5.0

T = TypeVar("T")
Opening = Callable[[], AbstractAsyncContextManager[Scheduler]]


class Inside:
    """Opened with the first question. `close` gives back what `opening` took."""

    def __init__(self, opening: Opening, *, whom: str, deadline_s: float = DEADLINE_S) -> None:
        self._opening = opening
        self._whom = whom  # is asked, in words
        self._deadline_s = deadline_s
        self._thread: threading.Thread | None = None
        self._closed = False
        self._opened: Future[tuple[asyncio.AbstractEventLoop, ASGIApp, asyncio.Event]] = Future()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
    ) -> Any:
        """The answer as JSON; a problem is raised as the error that it is."""
        content = b"" if body is None else json.dumps(body).encode()
        answer = self._run(self._begun(method, target(path, query or {}), content), deadline_s)
        whole = self._run(answer.rest(), deadline_s)
        record = json.loads(whole) if whole else None
        if answer.status >= 400:
            raise error_of(answer.status, record)
        return record

    def stream(self, path: str, *, query: Query) -> Iterator[bytes]:
        """Bytes as they come; only the beginning of the answer has a deadline."""
        answer = self._run(self._begun("GET", target(path, query), b""), None)
        try:
            if answer.status >= 400:
                raise error_of(answer.status, json.loads(self._run(answer.rest(), None)))
            while content := self._run(answer.part(), None, endless=True):
                yield content
        finally:
            if not self._closed:
                self._run(answer.leave(), _ENDS_WITHIN_S)

    def close(self) -> None:
        if self._thread is None or not self._opened.done() or self._opened.exception() is not None:
            return
        self._closed = True
        loop, _, leaving = self._opened.result()
        loop.call_soon_threadsafe(leaving.set)
        self._thread.join(_ENDS_WITHIN_S)

    async def _begun(self, method: str, target_: str, content: bytes) -> "_Answer":
        """The answer once its status is known."""
        answer = _Answer(self._app, method, target_, content)
        await answer.begun()
        return answer

    @property
    def _app(self) -> ASGIApp:
        return self._opened.result()[1]

    def _run(self, question: Coroutine[Any, Any, T], deadline_s: float | None, *, endless: bool = False) -> T:
        """On the scheduler's loop, while this thread waits."""
        if self._thread is None:
            self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
            self._thread.start()
        timeout_s = deadline_s or self._deadline_s
        asked: Future[T] | None = None
        try:
            loop, _, _ = self._opened.result(timeout_s)
            asked = asyncio.run_coroutine_threadsafe(question, loop)
            return asked.result(None if endless else timeout_s)
        except CancelledError:
            raise EngineUnavailable(f"{self._whom} is not asked any more", retry_after_s=1.0) from None
        except TimeoutError:
            words = f"{self._whom} did not answer within {timeout_s:g} s"
            raise EngineUnavailable(words, retry_after_s=1.0) from None
        finally:
            if asked is None:
                question.close()
            elif not asked.done():  # out of time, or interrupted
                asked.cancel()

    async def _live(self) -> None:
        leaving = asyncio.Event()
        try:
            async with self._opening() as scheduler:
                self._opened.set_result((asyncio.get_running_loop(), build_routes(scheduler, stop=_refuse), leaving))
                await leaving.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)  # whoever asks is told why


class _Answer:
    """One call of the app: its status first, then the body part by part."""

    def __init__(self, app: ASGIApp, method: str, target_: str, content: bytes) -> None:
        self.status = 0
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)  # whoever prints sets the pace
        self._begun = asyncio.Event()
        self._sent = [{"type": "http.request", "body": content, "more_body": False}]
        self._task = asyncio.create_task(self._call(app, _scope(method, target_, content)))

    async def begun(self) -> None:
        waiting = asyncio.create_task(self._begun.wait())
        await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not self._begun.is_set():
            await self._task  # it failed before it said anything: raises

    async def part(self) -> bytes:
        """The next part; empty: that was all."""
        content = await self._parts.get()
        if content is None:
            await self._task  # raises where the answer was cut short
        return content or b""

    async def rest(self) -> bytes:
        whole = b""
        while content := await self.part():
            whole += content
        return whole

    async def leave(self) -> None:
        """Whether all of it was read or not."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _call(self, app: ASGIApp, scope: Scope) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            if not self._task.cancelling():
                await self._parts.put(None)

    async def _receive(self) -> Message:
        if self._sent:
            return self._sent.pop()
        await asyncio.Event().wait()  # for ever: whoever leaves cancels the call
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._begun.set()
        elif content := message.get("body", b""):
            await self._parts.put(content)


def _scope(method: str, target_: str, content: bytes) -> Scope:
    path, _, query = target_.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"content-length", str(len(content)).encode())],
        "client": None,
        "server": None,
    }


def _refuse(leave_jobs: bool) -> None:
    expected = "nothing: no engine of this process runs jobs, so there is none to stop"
    raise InvalidRequest(field="shutdown", value=leave_jobs, expected=expected)
