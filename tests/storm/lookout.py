"""Follows the pods and jobs of a cluster, and tells an observer of every change."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.looping import LoopThread
from tests.cluster.requests import Access
from tests.cluster.talking import Talk
from tests.storm.errands import KINDS, plural_path
from tests.storm.observer import Observer

T = TypeVar("T")


class Lookout:
    def __init__(self, access: Access, observer: Observer) -> None:
        self._access = access
        self._observer = observer
        self._thread = LoopThread("lookout")
        self._thread.run(self._open())

    def ask(self, question: Callable[[Observer], T]) -> T:
        """Answered between two changes."""

        async def answered() -> T:
            return question(self._observer)

        return self._thread.run(answered())

    def close(self) -> None:
        self._thread.run(self._talk.close())
        self._thread.stop()

    async def _open(self) -> None:
        self._talk = Talk(self._access)
        self._tasks = [asyncio.create_task(self._follow_pods())]
        self._tasks += [asyncio.create_task(self._follow_jobs(kind)) for kind in KINDS]

    async def _follow_pods(self) -> None:
        async for change in self._talk.follow("/api/v1/pods"):
            self._observer.take_pods(change)

    async def _follow_jobs(self, kind: str) -> None:
        async for change in self._talk.follow(plural_path(kind, None)):
            self._observer.take_jobs(kind, change)
