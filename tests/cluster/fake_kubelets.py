"""The kubelets of nodes that do not exist: pods bound there run, and end when deleted, by status alone.

Inside one event loop. What a test tells it to do differently is in `Habits`, and in `fake_nodes`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec

from tests.cluster.pod_status import Ending, Rejection, ended, rejected, restarted, restarts, running
from tests.cluster.requests import ApiError
from tests.cluster.talking import Talk
from tests.waiting import until_async

T = TypeVar("T")


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815


class _Container(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815
    restartPolicy: str = "Always"  # noqa: N815
    containers: list[_Container] = []


class _Status(msgspec.Struct):
    phase: str = "Pending"


class Pod(msgspec.Struct):
    """The little of a pod that a fake kubelet looks at."""

    metadata: _Metadata
    spec: _Spec
    status: _Status

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.metadata.namespace}/pods/{self.metadata.name}"


class Run(NamedTuple):
    """What a program does."""

    for_s: float
    ending: Ending


@dataclass
class Habits:
    """How these kubelets behave. A test may change any of it at any time."""

    start_s: float = 0.0  # from bound to running
    stop_s: float = 0.0  # from deleted to gone, and never longer than the pod's grace
    hold_starts: bool = False  # bound pods stay Pending; those that do so need `FakeNodes.start` later
    becomes_ready: bool = True  # running pods are ready
    on_stop: Callable[[Pod], Ending | None] = lambda _: (
        Ending()
    )  # None: the pod stays, terminating, until told otherwise
    admission: Callable[[Pod], Rejection | None] = lambda _: None  # None: the pod is let in
    program: Callable[[Pod, int], Run | None] = lambda *_: None  # the pod, and its restarts. None: it runs on for ever
    programs_pause: bool = False  # those that run do not end


class FakeKubelets:
    def __init__(self, talk: Talk, habits: Habits) -> None:
        self.nodes: set[str] = set()
        self.silent: set[str] = set()  # their kubelets do nothing
        self.habits = habits
        self._talk = talk
        self._pods: dict[str, Pod] = {}  # by uid
        self._starting: set[str] = set()
        self._stopping: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses = 0

    async def play(self) -> None:
        """For ever: follows the pods, and does with each what its kubelet would."""
        decoder = msgspec.json.Decoder(Pod)
        async for change in self._talk.follow("/api/v1/pods", fieldSelector="spec.nodeName!="):
            pods = [decoder.decode(raw) for raw in change.objects]
            if change.type == "LISTED":
                there = {pod.metadata.uid for pod in pods}
                for uid in self._pods.keys() - there:
                    self._forget(uid)
            for pod in pods:
                if change.type == "DELETED":
                    self._forget(pod.metadata.uid)
                else:
                    self._pods[pod.metadata.uid] = pod
                    self.consider(pod)

    def consider(self, pod: Pod, *, start_now: bool = False) -> None:
        """What is there to do for this pod, if it is not being done already?"""
        uid = pod.metadata.uid
        if pod.spec.nodeName not in self.nodes or pod.spec.nodeName in self.silent:
            return
        if pod.metadata.deletionTimestamp is not None:
            ending = self.habits.on_stop(pod) if uid not in self._stopping else None
            if ending is not None:
                grace_s = pod.metadata.deletionGracePeriodSeconds
                stop_s = self.habits.stop_s if grace_s is None else min(self.habits.stop_s, grace_s)
                self._begin(self._stopping, pod, stop_s, partial(self.stop, pod, ending))
        elif pod.status.phase == "Pending" and uid not in self._starting and (start_now or not self.habits.hold_starts):
            self._begin(self._starting, pod, self.habits.start_s, partial(self._start, pod))

    def on(self, node: str) -> list[Pod]:
        return [pod for pod in self._pods.values() if pod.spec.nodeName == node]

    def named(self, namespace: str, name: str) -> Pod | None:
        found = (pod for pod in self._pods.values() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name))
        return next(found, None)

    def _begin(self, pods: set[str], pod: Pod, after_s: float, work: Callable[[], Awaitable[None]]) -> None:
        async def later() -> None:
            await asyncio.sleep(after_s)
            if pod.spec.nodeName in self.silent:  # by now; considered again when it is back
                pods.discard(pod.metadata.uid)
                return
            with suppress(ApiError):  # the pod went meanwhile
                await work()

        pods.add(pod.metadata.uid)
        task = asyncio.create_task(later())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, pod: Pod) -> None:
        rejection = self.habits.admission(pod)
        if rejection is not None:
            await self.insist(lambda: self.write_status(pod, rejected(rejection)))
            return
        self._addresses += 1
        address = f"10.{128 + (self._addresses >> 16)}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        names = [container.name for container in pod.spec.containers]
        status = running(names, address=address, ready=self.habits.becomes_ready)
        await self.insist(lambda: self.write_status(pod, status))
        restarts_before = 0
        while (run := self.habits.program(pod, restarts_before)) is not None:
            await asyncio.sleep(run.for_s)
            if not await self._ends(pod, run.ending):
                return
            restarts_before += 1

    async def _ends(self, pod: Pod, ending: Ending) -> bool:
        """A program ends, once its node tells anything at all. True: it is started again in place."""
        uid = pod.metadata.uid
        await until_async(
            lambda: uid not in self._pods or not (self.habits.programs_pause or pod.spec.nodeName in self.silent),
            "its node tells of it",
            patience_s=math.inf,
            every_s=0.05,
        )
        known = self._pods.get(uid)
        if known is None or known.metadata.deletionTimestamp is not None:
            return False  # told to stop meanwhile, which is another end
        status = (await self.insist(lambda: self._talk.ask("GET", pod.path)))["status"]
        if status["phase"] != "Running":
            return False  # thrown out meanwhile
        again = restarts(pod.spec.restartPolicy, ending.code)
        after = restarted(status, ending) if again else ended(status, ending, policy=pod.spec.restartPolicy)
        await self.insist(lambda: self.write_status(pod, after))
        return again

    async def stop(self, pod: Pod, ending: Ending) -> None:
        """Its containers end, and the deleted pod is gone."""
        status = (await self.insist(lambda: self._talk.ask("GET", pod.path)))["status"]
        if status.get("containerStatuses") and status["phase"] == "Running":  # else nothing of it is left to end
            over = ended(status, ending, policy=pod.spec.restartPolicy)
            await self.insist(lambda: self.write_status(pod, over))
        goodbye = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        await self.insist(lambda: self._talk.ask("DELETE", pod.path, goodbye))

    async def write_status(self, pod: Pod, status: dict[str, Any]) -> None:
        """Refused if another pod has the name by now."""
        await self._talk.ask("PATCH", f"{pod.path}/status", {"metadata": {"uid": pod.metadata.uid}, "status": status})

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """An API server that is away or overrun comes back; what it refuses, it refuses again."""
        answers: list[T] = []

        async def answered() -> bool:
            try:
                answers.append(await ask())
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            return bool(answers)

        await until_async(answered, "the API server answers", patience_s=math.inf, every_s=0.2)
        return answers[0]

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._starting.discard(uid)
        self._stopping.discard(uid)
