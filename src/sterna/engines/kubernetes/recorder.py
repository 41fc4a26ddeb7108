"""Events on objects, for people who use `kubectl describe`: counted rather than repeated, and never in the way.

Recording only puts an event into a line; `run` writes it, least urgent of all. Events of one object, reason and kind of
message are one Event with a count, under a name that a restarted process finds again. Somebody who floods an object is
cut off, and while the API server is in trouble events are dropped: they explain, nothing depends on them.
"""

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Never

from sterna.engines.kubernetes.api import EVENTS, AlreadyExists, Api, Missing, Urgency
from sterna.engines.kubernetes.client.backoff import Backoff
from sterna.engines.kubernetes.clock import Clock, SystemClock
from sterna.engines.kubernetes.objects import Body, KubeObject
from sterna.model.errors import EngineUnavailable, SternaError

log = logging.getLogger(__name__)

WAITING_MAX = 1000  # different events in line
REMEMBERED_MAX = 4096  # objects whose flood is measured, and events whose count is known
BURST = 25  # events about one object at once
REFILL_S = 30.0  # and one more in this time
MESSAGE_MAX = 1000
_PAUSE_S, _PAUSE_MAX_S = 1.0, 30.0
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class About(NamedTuple):
    """The object an event is about."""

    api_version: str
    kind: str
    namespace: str  # empty: it has none
    name: str
    uid: str


class _EventObject(KubeObject, frozen=True):
    count: int | None = None


@dataclass(slots=True)
class _Waiting:
    name: str
    about: About
    reason: str
    message: str
    severity: Severity
    first_s: float
    last_s: float
    count: int = 1


@dataclass(slots=True)
class _Bucket:
    left: float
    as_of_s: float


class Recorder:
    """`component` and `instance` say who speaks: the program, and which of its processes."""

    def __init__(self, api: Api, *, component: str = "sterna", instance: str = "", clock: Clock | None = None) -> None:
        self.dropped = 0  # events that nobody will see, of any cause
        self._api = api
        self._component = component
        self._instance = instance
        self._clock: Clock = clock or SystemClock()
        self._line: OrderedDict[str, _Waiting] = OrderedDict()
        self._written: OrderedDict[str, int] = OrderedDict()  # name -> count as the API server has it
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def record(
        self, about: About, *, reason: str, message: str, severity: Severity = Severity.NORMAL, alike: str | None = None
    ) -> bool:
        """Put it into the line: never waits, never raises. False: dropped.

        Events about one object with one reason and the same `alike` are one that is counted, and the latest message is
        shown. None: messages are alike if they differ in numbers only.
        """
        if not self._has_room(about.uid):
            self.dropped += 1
            return False
        name = _name_of(about, reason, alike if alike is not None else _NUMBERS.sub("#", message))
        now_s = self._clock.wall()
        waiting = self._line.get(name)
        if waiting is not None:
            waiting.count += 1
            waiting.message, waiting.severity, waiting.last_s = message[:MESSAGE_MAX], severity, now_s
            return True
        self._line[name] = _Waiting(name, about, reason, message[:MESSAGE_MAX], severity, now_s, now_s)
        if len(self._line) > WAITING_MAX:
            self._line.popitem(last=False)
            self.dropped += 1
        self._empty.clear()
        self._filled.set()
        return True

    async def run(self) -> Never:
        """Write what is recorded, for ever; only cancelling ends it."""
        backoff = Backoff(_PAUSE_S, _PAUSE_MAX_S)
        while True:
            await self._filled.wait()
            _, waiting = self._line.popitem(last=False)
            pause_s = 0.0
            try:
                await self._write(waiting)
                backoff.reset()
            except SternaError as error:
                self.dropped += waiting.count
                log.info("event dropped reason=%s object=%s because=%s", waiting.reason, waiting.about.name, error)
                if isinstance(error, EngineUnavailable):
                    pause_s = backoff.after()
            finally:
                if not self._line:
                    self._filled.clear()
                    self._empty.set()
            if pause_s:
                await self._clock.sleep(pause_s)

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped."""
        await self._empty.wait()

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self, waiting: _Waiting) -> None:
        namespace = waiting.about.namespace or "default"  # where events of things without a namespace live
        known = self._written.pop(waiting.name, None)
        if known is None:
            try:
                await self._create(waiting, namespace)
                self._remember(waiting.name, waiting.count)
                return
            except AlreadyExists:  # from before this process
                known = await self._count(waiting.name, namespace)
        try:
            await self._raise_count(waiting, namespace, known + waiting.count)
            self._remember(waiting.name, known + waiting.count)
        except Missing:  # the API server forgets events after an hour
            await self._create(waiting, namespace)
            self._remember(waiting.name, waiting.count)

    async def _create(self, waiting: _Waiting, namespace: str) -> None:
        about = waiting.about
        body: Body = {
            "metadata": {"name": waiting.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "uid": about.uid,
                **({"namespace": about.namespace} if about.namespace else {}),
            },
            "reason": waiting.reason,
            "message": waiting.message,
            "type": waiting.severity.value,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _time(waiting.first_s),
            "lastTimestamp": _time(waiting.last_s),
            "count": waiting.count,
        }
        await self._api.create(EVENTS, body, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT)

    async def _count(self, name: str, namespace: str) -> int:
        try:
            found = await self._api.get(EVENTS, name, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT)
        except Missing:
            return 0
        return found.count or 1

    async def _raise_count(self, waiting: _Waiting, namespace: str, count: int) -> None:
        body: Body = {
            "count": count,
            "message": waiting.message,
            "type": waiting.severity.value,
            "lastTimestamp": _time(waiting.last_s),
        }
        await self._api.patch(
            EVENTS, waiting.name, body, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT
        )

    def _remember(self, name: str, count: int) -> None:
        self._written[name] = count
        if len(self._written) > REMEMBERED_MAX:
            self._written.popitem(last=False)

    # -- floods -------------------------------------------------------------------------------------------------------

    def _has_room(self, uid: str) -> bool:
        now_s = self._clock.mono()
        bucket = self._buckets.pop(uid, None) or _Bucket(BURST, now_s)
        bucket.left = min(BURST, bucket.left + (now_s - bucket.as_of_s) / REFILL_S)
        bucket.as_of_s = now_s
        self._buckets[uid] = bucket
        if len(self._buckets) > REMEMBERED_MAX:
            self._buckets.popitem(last=False)
        if bucket.left < 1.0:
            return False
        bucket.left -= 1.0
        return True


def _name_of(about: About, reason: str, alike: str) -> str:
    digest = hashlib.sha256("\0".join((about.uid, reason, alike)).encode()).hexdigest()
    return f"{about.name[:200].rstrip('.-')}.{digest[:16]}"


def _time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
