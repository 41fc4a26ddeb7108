"""Events on objects, for people who use `kubectl describe`: counted rather than repeated, and never in the way.

Recording only puts an event into a line; `run` writes it, least urgent of all. Events of one object, reason and kind of
message are one Event with a count, under a name that a restarted process finds again. An event that has a number is
counted once, however often it is recorded. A flood of events about one object is cut off, and while the API server is
in trouble events are dropped: they explain, nothing depends on them. A caller that must know what became of one passes
`told`.
"""

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Never

from sterna.engines.kubernetes.apiserver.client.backoff import Backoff
from sterna.engines.kubernetes.apiserver.objects import Body, KubeObject
from sterna.engines.kubernetes.apiserver.port import EVENTS, AlreadyExists, Api, Missing, NotLeader, Urgency
from sterna.engines.kubernetes.process.clock import Clock, SystemClock
from sterna.model.errors import EngineUnavailable, SternaError

log = logging.getLogger(__name__)

WAITING_MAX = 1000  # different events in line
REMEMBERED_MAX = 4096  # objects whose flood is measured, and events whose count is known
BURST = 25  # events about one object at once
REFILL_S = 30.0  # and one more in this time
MESSAGE_MAX = 1000
NUMBER = "sterna.dev/event-number"  # annotation of an Event: the highest number that is counted in it
DECISION = "sterna.dev/decision"  # ... and the id of the decision that the latest of them follows from
_PAUSE_S, _PAUSE_MAX_S = 1.0, 30.0
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")

OnTold = Callable[[bool], None]  # False: it was not recorded and may be tried again; else it is, or never will be


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

    @property
    def number(self) -> int:
        """The highest that was counted; 0: none had one."""
        text = self.metadata.annotation(NUMBER) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


class _Known(NamedTuple):
    """As the API server has it."""

    times: int  # how often it happened
    number: int  # the highest that was counted


@dataclass(slots=True)
class _Waiting:
    name: str
    about: About
    reason: str
    message: str
    severity: Severity
    first_s: float
    last_s: float
    count: int = 1  # of those without a number
    numbers: tuple[int, ...] = ()
    told: tuple[OnTold, ...] = ()  # called with the result
    decision: str = ""  # id of the decision that the latest of them follows from. Empty: of none

    def counted(self, known: _Known) -> _Known:
        """What is to be on the API server, where this is there."""
        fresh = [number for number in self.numbers if number > known.number]
        count = known.times + self.count + len(fresh)
        return _Known(count, max((known.number, *fresh)))

    def tell(self, *, done: bool) -> None:
        for told in self.told:
            told(done)


@dataclass(slots=True)
class _Bucket:
    left: float
    as_of_s: float

    def left_at(self, now_s: float) -> float:
        return min(BURST, self.left + (now_s - self.as_of_s) / REFILL_S)


class Recorder:
    """`component` and `instance` name the source of the events: the program, and which of its processes."""

    def __init__(self, api: Api, *, component: str = "sterna", instance: str = "", clock: Clock | None = None) -> None:
        self.dropped = 0  # events that were not written, of any cause
        self._api = api
        self._component = component
        self._instance = instance
        self._clock: Clock = clock or SystemClock()
        self._line: OrderedDict[str, _Waiting] = OrderedDict()
        self._written: OrderedDict[str, _Known] = OrderedDict()  # by name
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def record(
        self,
        about: About,
        *,
        reason: str,
        message: str,
        severity: Severity = Severity.NORMAL,
        alike: str | None = None,
        of_parts: bool = False,
        number: int | None = None,
        decision: str = "",
        told: OnTold | None = None,
    ) -> bool:
        """Put it into the line: never waits, never raises. False: dropped.

        Events about one object with one reason and the same `alike` are one that is counted, and the latest message is
        shown. None: messages are alike if they differ in numbers only. `of_parts`: it is about parts of the object, of
        which there may be many; a flood of these does not keep others from being told. Of events that are alike, those
        with a `number` that is not above the highest one recorded are not counted again, and none of them is a flood:
        each took a write of the object it is about. `told` is called later, once, unless it is dropped here.
        """
        if number is None and not self._has_room(f"{about.uid}/parts" if of_parts else about.uid):
            self.dropped += 1
            return False
        numbers, heard = () if number is None else (number,), () if told is None else (told,)
        name = _name_of(about, reason, alike if alike is not None else _NUMBERS.sub("#", message))
        now_s = self._clock.wall()
        waiting = self._line.get(name)
        if waiting is not None:
            waiting.count += number is None
            waiting.numbers += numbers
            waiting.told += heard
            waiting.message, waiting.severity, waiting.last_s = message[:MESSAGE_MAX], severity, now_s
            waiting.decision = decision
            return True
        count = 1 if number is None else 0
        self._line[name] = _Waiting(
            name, about, reason, message[:MESSAGE_MAX], severity, now_s, now_s, count, numbers, heard, decision
        )
        if len(self._line) > WAITING_MAX:
            _, oldest = self._line.popitem(last=False)
            self.dropped += 1
            oldest.tell(done=False)
        self._empty.clear()
        self._filled.set()
        return True

    async def run(self) -> Never:
        """Write what is recorded, for ever; only cancelling ends it."""
        backoff = Backoff(_PAUSE_S, _PAUSE_MAX_S)
        while True:
            await self._filled.wait()
            _, waiting = self._line.popitem(last=False)
            pause_s, done = 0.0, False
            try:
                await self._write(waiting)
                backoff.reset()
                done = True
            except SternaError as error:
                self.dropped += waiting.count + len(waiting.numbers)
                done = not isinstance(error, EngineUnavailable | NotLeader)  # refused for good
                keys = {"reason": waiting.reason, "object": waiting.about.name, "why": str(error)}
                log.info("event dropped", extra=keys)
                if isinstance(error, EngineUnavailable):
                    pause_s = backoff.after()
            finally:
                if not self._line:
                    self._filled.clear()
                    self._empty.set()
            if pause_s:
                await self._clock.sleep(pause_s)
            waiting.tell(done=done)

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped."""
        await self._empty.wait()

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self, waiting: _Waiting) -> None:
        namespace = waiting.about.namespace or "default"  # where events of things without a namespace live
        known = self._written.pop(waiting.name, None)
        if known is None:
            try:
                self._remember(waiting.name, await self._create(waiting, namespace))
                return
            except AlreadyExists:  # from before this process
                known = await self._count(waiting.name, namespace)
        now = waiting.counted(known)
        if now == known:
            self._remember(waiting.name, known)
            return  # it was recorded before
        try:
            await self._raise_count(waiting, namespace, now)
            self._remember(waiting.name, now)
        except Missing:  # the API server forgets events after an hour
            self._remember(waiting.name, await self._create(waiting, namespace, above=known.number))

    async def _create(self, waiting: _Waiting, namespace: str, *, above: int = 0) -> _Known:
        about, now = waiting.about, waiting.counted(_Known(0, above))
        body: Body = {
            "metadata": {"name": waiting.name, "namespace": namespace, **_annotated(now, waiting)},
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
            "count": now.times,
        }
        await self._api.create(EVENTS, body, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT)
        return now

    async def _count(self, name: str, namespace: str) -> _Known:
        try:
            found = await self._api.get(EVENTS, name, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT)
        except Missing:
            return _Known(0, 0)
        return _Known(found.count or 1, found.number)

    async def _raise_count(self, waiting: _Waiting, namespace: str, now: _Known) -> None:
        body: Body = {
            **({"metadata": annotated} if (annotated := _annotated(now, waiting)) else {}),
            "count": now.times,
            "message": waiting.message,
            "type": waiting.severity.value,
            "lastTimestamp": _time(waiting.last_s),
        }
        await self._api.patch(
            EVENTS, waiting.name, body, namespace=namespace, shape=_EventObject, urgency=Urgency.EVENT
        )

    def _remember(self, name: str, known: _Known) -> None:
        self._written[name] = known
        if len(self._written) > REMEMBERED_MAX:
            self._written.popitem(last=False)

    # -- floods -------------------------------------------------------------------------------------------------------

    def _has_room(self, key: str) -> bool:
        now_s = self._clock.mono()
        known = self._buckets.pop(key, None)
        left = BURST if known is None else known.left_at(now_s)
        self._buckets[key] = _Bucket(left - 1.0 if left >= 1.0 else left, now_s)
        self._forget_the_full(now_s)
        return left >= 1.0

    def _forget_the_full(self, now_s: float) -> None:
        """A full bucket is the same as none, and most objects have a few events and then no more."""
        for uid, bucket in [*islice(self._buckets.items(), 2)]:  # two, as one is added at a time: it can shrink
            if bucket.left_at(now_s) >= BURST or len(self._buckets) > REMEMBERED_MAX:
                del self._buckets[uid]


def _annotated(known: _Known, waiting: _Waiting) -> Body:
    """Empty: there is nothing to say."""
    said = {NUMBER: str(known.number) if known.number else "", DECISION: waiting.decision}
    said = {name: text for name, text in said.items() if text}
    return {"annotations": said} if said else {}


def _name_of(about: About, reason: str, alike: str) -> str:
    digest = hashlib.sha256("\0".join((about.uid, reason, alike)).encode()).hexdigest()
    return f"{about.name[:200].rstrip('.-')}.{digest[:16]}"


def _time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
