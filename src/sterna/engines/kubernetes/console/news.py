"""Has anything changed? Watches of jobs and migrations, from the first question on until the scheduler is closed.

Nothing of what they bring is kept but its number. A watch that the user may not have is tried in the user's own
namespace. Where that is refused as well it tells nothing, and `after` answers when its time is up.
"""

import asyncio
from contextlib import aclosing

from sterna.engines.kubernetes.apiserver.objects import KubeObject
from sterna.engines.kubernetes.apiserver.port import MIGRATIONS, Api, EventType, Gone, Missing, Refused, Resource
from sterna.engines.kubernetes.console.finding import JOB_KINDS
from sterna.model.errors import EngineUnavailable

_FIRST_WITHIN_S = 10.0
_SETTLES_S = 0.2  # one change of a job is several writes: it is told of once


class News:
    def __init__(self, api: Api, *, namespace: str, tasks: asyncio.TaskGroup) -> None:
        self._api = api
        self._namespace = namespace
        self._tasks = tasks
        self._watches: list[_Watch] = []
        self._running: list[asyncio.Task[None]] = []
        self._came = asyncio.Event()

    @property
    def newest(self) -> int:
        return max((watch.newest for watch in self._watches), default=0)

    async def after(self, number: int, *, timeout_s: float) -> int:
        """The number of the newest change, once it is above `number` or time is up."""
        await self._started()
        try:
            async with asyncio.timeout(timeout_s):
                while self.newest <= number:
                    self._came.clear()
                    await self._came.wait()
                await asyncio.sleep(_SETTLES_S)
        except TimeoutError:
            pass
        return self.newest

    def stop(self) -> None:
        for task in self._running:
            task.cancel()

    async def _started(self) -> None:
        if self._watches:
            return
        self._watches = [_Watch(self._api, resource, self._came) for resource in (*JOB_KINDS, MIGRATIONS)]
        self._running = [self._tasks.create_task(watch.run(self._namespace)) for watch in self._watches]
        try:
            async with asyncio.timeout(_FIRST_WITHIN_S):
                for watch in self._watches:
                    await watch.listed.wait()
        except TimeoutError:
            pass  # a request for jobs tells what is wrong


class _Watch:
    def __init__(self, api: Api, resource: Resource, came: asyncio.Event) -> None:
        self._api = api
        self._resource = resource
        self._came = came
        self.newest = 0
        self.listed = asyncio.Event()

    async def run(self, namespace: str) -> None:
        try:
            if not await self._followed(None):
                await self._followed(namespace)
        except Missing:
            pass  # the cluster has no such kind
        finally:
            self.listed.set()

    async def _followed(self, namespace: str | None) -> bool:
        """Runs for ever; False: the user may not watch."""
        while True:
            try:
                listing = await self._api.listing(self._resource, namespace=namespace, shape=KubeObject)
                self._note(listing.resource_version)
                self.listed.set()
                since = listing.resource_version
                while True:
                    since = await self._watched(since, namespace)
            except Gone:
                continue
            except Refused:
                return False
            except EngineUnavailable as error:
                await asyncio.sleep(max(0.2, error.retry_after_s))

    async def _watched(self, since: str, namespace: str | None) -> str:
        """Until the server ends it; from where to go on."""
        events = self._api.watch(self._resource, since=since, namespace=namespace, shape=KubeObject)
        async with aclosing(events):
            async for event in events:
                since = event.object.metadata.resource_version or since
                if event.type is not EventType.BOOKMARK:
                    self._note(since)
        return since

    def _note(self, version: str) -> None:
        self.newest = max(self.newest, int(version) if version.isdecimal() else 0)
        self._came.set()
