"""What the containers of a job print, from the API server: one log for each run of a container that is still known."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing, suppress
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.objects import ContainerStatus, Pod
from sterna.engines.kubernetes.apiserver.port import Api, Missing, Refused
from sterna.engines.kubernetes.console.finding import FoundJob
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.model.errors import NotFound

_KEPT_BYTES = 1 << 20  # of one log, ahead of its reader


class PodLog(NamedTuple):
    api: Api
    pod: Pod
    container: str
    restarts: int  # which run of the container
    live: bool
    previous: bool = False  # the run before the one that is there now

    @property
    def worker(self) -> str:
        return self.pod.metadata.name

    @property
    def seat(self) -> str:
        return self.pod.metadata.name

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.uid}/{self.restarts}"

    async def open(self, *, tail: int | None, follow: bool) -> "Pipe":
        return Pipe(self, tail=tail, follow=follow and self.live)


class Pipe:
    """Reads ahead, because a reader that follows several logs must not wait for one that prints nothing."""

    def __init__(self, log: PodLog, *, tail: int | None, follow: bool) -> None:
        self._follow = follow
        self._kept: asyncio.Queue[bytes] = asyncio.Queue(maxsize=max(1, _KEPT_BYTES >> 16))
        self._task = asyncio.create_task(self._filled(log, tail))

    @property
    def dry(self) -> bool:
        return self._task.done() and self._kept.empty()

    async def read(self) -> bytes:
        if self._kept.empty() and not self._follow:
            taking = asyncio.create_task(self._kept.get())
            await asyncio.wait([taking, self._task], return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                return taking.result()
            taking.cancel()
        if self._kept.empty():
            if self._task.done():
                self._task.result()  # raises where it was cut short
            return b""
        return self._kept.get_nowait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _filled(self, log: PodLog, tail: int | None) -> None:
        meta = log.pod.metadata
        pieces = log.api.logs(
            meta.name,
            namespace=meta.namespace,
            container=log.container,
            follow=self._follow,
            previous=log.previous,
            tail=tail,
        )
        with suppress(Missing):  # gone meanwhile, and its log with it
            async with aclosing(pieces):
                try:
                    async for piece in pieces:
                        await self._kept.put(piece)
                except Refused as error:
                    if error.code != 400:  # its container has nothing to show yet, or not any more
                        raise


def logs_of(api: Api, job: FoundJob, pods: Iterable[Pod], worker: str | None) -> list[PodLog]:
    """The oldest pod first, and of each pod the run before the present one where it is known. None: of all workers."""
    seen = [job.seen(pod) for pod in pods]
    wanted = [one for one in seen if worker is None or worker in _names(one)]
    if not wanted and worker is not None:
        raise NotFound("worker", worker, hint="it has: " + (", ".join(one.name for one in seen) or "none"))
    return [log for one in wanted for log in _runs(api, one)]


def _names(seen: Seen) -> tuple[str, ...]:
    """A worker is called by its pod, by its number, or by its role and number."""
    if seen.place is None:
        return (seen.name,)
    role, ordinal = seen.place
    return seen.name, f"{role}-{ordinal}", *((str(ordinal),) if role == "worker" else ())


def _runs(api: Api, seen: Seen) -> list[PodLog]:
    status = _main_status(seen)
    if status is None:
        return []
    runs = []
    if status.restart_count and status.last_state is not None and status.last_state.terminated is not None:
        runs.append(PodLog(api, seen.pod, status.name, status.restart_count - 1, live=False, previous=True))
    state = status.state
    if state is not None and (state.running is not None or state.terminated is not None):
        runs.append(PodLog(api, seen.pod, status.name, status.restart_count, live=state.running is not None))
    return runs


def _main_status(seen: Seen) -> ContainerStatus | None:
    statuses = seen.pod.status.container_statuses or []
    main = seen.main or (seen.pod.spec.containers[0].name if seen.pod.spec.containers else "")
    return next((found for found in statuses if found.name == main), statuses[0] if statuses else None)
