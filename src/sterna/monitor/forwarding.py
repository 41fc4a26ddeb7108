"""Sending on what the windows hold: batches to the scheduler, again after a while when it does not answer.

Nothing is queued beside the windows: what was not taken yet is still in them, as long as it fits. A scheduler that
started anew shows by another instance in its answer; then everything is unsent again. Reports of many jobs travel
together, and what becomes of one must not depend on the others: the answer says which were refused, and a batch that is
refused as a whole, as older schedulers do, is sent again in halves until the one that is at fault stands alone.
"""

import asyncio
import logging
import math
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

from sterna.httpd import CallFailed, call
from sterna.monitor.windows import Windows
from sterna.protocol.reports import FAULTS_MAX, REASON_MAX, Answer, BadReport, Batch, Report, Usage
from sterna.protocol.tokens import bearer

log = logging.getLogger(__name__)

BATCH_MAX = 500  # reports; keeps a body of the longest names below 1 MiB
HASTE = 200  # reports that have come since the last batch: send before the interval is over
REFUSALS_LOGGED_S = 60.0  # at most one line in this time, however many there are
BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 30.0


class TryLater(Exception):
    """The scheduler is away or takes nothing now; `after_s`: not before, where it said so."""

    def __init__(self, message: str, *, after_s: float = 0.0) -> None:
        self.after_s = after_s
        super().__init__(message)


class NotTaken(Exception):
    """The scheduler will never take this batch as it is."""


Deliver = Callable[[Batch], Awaitable[Answer]]


class Forwarding:
    def __init__(
        self,
        windows: Windows,
        deliver: Deliver,
        *,
        node: str,
        monitor: str,
        interval_s: float,
        followed: Callable[[Mapping[str, str]], None],
        chance: random.Random,
        told: Callable[[Mapping[str, str]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._windows = windows
        self._deliver = deliver
        self._node = node
        self._monitor = monitor
        self._interval_s = interval_s
        self._followed = followed
        self._chance = chance
        self._told = told
        self._asks_tokens = False
        self._clock = clock
        self._refusal_logged_s = -math.inf
        self._haste = asyncio.Event()
        self._load: Usage | None = None
        self._faults: dict[str, str] = {}  # to be told
        self._faults_told: dict[str, str] = {}
        self._backoff_s = 0.0
        self.instance = ""  # of the scheduler; "": not heard yet
        self.trouble: str | None = None  # why the last batch did not arrive; None: it did

    def took(self) -> None:
        """Something came in. From `HASTE` waiting reports on, the next batch is sent at once."""
        if self._windows.waiting >= HASTE and not self._backoff_s:
            self._haste.set()

    def ask_tokens(self) -> None:
        """Have the scheduler say, soon, which tokens this node's jobs have; `told` is called with them."""
        self._asks_tokens = True
        if not self._backoff_s:
            self._haste.set()

    def measured(self, load: Usage | None) -> None:
        """What the whole node uses; goes with the next batch, which is sent even without reports."""
        self._load = load

    def faulted(self, pod: str, why: str) -> None:
        """The output of this pod is not followed. Its job is told by the scheduler, once."""
        if self._faults_told.get(pod) != why and len(self._faults) < FAULTS_MAX:
            self._faults[pod] = why[:REASON_MAX]

    async def run(self) -> None:
        while True:
            await self._pause()
            await self.send_all()

    async def send_all(self) -> None:
        """Until nothing is unsent, or the scheduler has to be waited for."""
        while (
            (reports := self._windows.unsent(BATCH_MAX)) or self._load is not None or self._faults or self._asks_tokens
        ):
            if not await self._send(reports):
                return

    async def _pause(self) -> None:
        """Wait for the interval or the back-off, a little less by chance: monitors must not send all at once."""
        wait_s = (self._backoff_s or self._interval_s) * self._chance.uniform(0.5, 1.0)
        try:
            async with asyncio.timeout(wait_s):
                await self._haste.wait()
        except TimeoutError:
            pass
        self._haste.clear()

    async def _send(self, reports: list[Report]) -> bool:
        load, faults = self._load, dict(self._faults)
        batch = Batch(
            tuple(reports),
            monitor=self._monitor,
            node=self._node,
            load=load,
            instance=self.instance,
            asks_tokens=self._asks_tokens,
            faults=faults,
        )
        try:
            answer = await self._deliver(batch)
        except TryLater as trouble:
            self._in_trouble(str(trouble), trouble.after_s)
            return False
        except NotTaken as refusal:
            return await self._send_apart(reports, str(refusal))
        if self._is_another(answer):
            return True
        self._followed(answer.follow)
        if answer.tokens is not None:
            self._told(answer.tokens)
        self._asks_tokens = False  # an older scheduler does not answer this, and is not asked in a circle
        self._reached()
        self._windows.sent(report for place, report in enumerate(reports) if place not in answer.refused)
        for place, why in answer.refused.items():
            if place < len(reports):
                self._refused(reports[place], why)
        if self._load is load:
            self._load = None
        self._told_faults(faults)
        return True

    def _told_faults(self, faults: Mapping[str, str]) -> None:
        if len(self._faults_told) > 10 * FAULTS_MAX:
            self._faults_told.clear()
        for pod, why in faults.items():
            self._faults_told[pod] = why
            if self._faults.get(pod) == why:
                del self._faults[pod]

    async def _send_apart(self, reports: list[Report], why: str) -> bool:
        """A whole batch was refused: find out what for, so that nothing else is lost with it."""
        self._reached()
        self._asks_tokens = False  # it may be the question that is not understood; it is asked again when need be
        if self._load is not None or self._faults:
            log.warning("batch refused", extra={"reports": len(reports), "why": why})
            self._load = None  # what the monitor says itself may be at fault; the node is measured again soon
            self._faults.clear()
            return not reports or await self._send(reports)
        if len(reports) <= 1:
            for report in reports:
                self._refused(report, why)
            return True
        middle, instance = len(reports) // 2, self.instance
        for part in (reports[:middle], reports[middle:]):
            if not await self._send(part):
                return False
            if self.instance != instance and instance:
                break  # it started anew: all is unsent, and goes in its order
        return True

    def _refused(self, report: Report, why: str) -> None:
        """Dropped, with a count and a reason that its job can ask for. The log says it now and then."""
        self._windows.refuse(report, why)
        now_s = self._clock()
        if now_s - self._refusal_logged_s >= REFUSALS_LOGGED_S:
            self._refusal_logged_s = now_s
            said = {"pod": report.pod, "why": why, "refused": self._windows.refused}
            log.warning("report refused", extra=said)

    def _reached(self) -> None:
        if self.trouble is not None:
            log.info("scheduler reached again", extra={"instance": self.instance})
        self.trouble, self._backoff_s = None, 0.0

    def _is_another(self, answer: Answer) -> bool:
        """Did the scheduler start anew since it was last heard? Then it took nothing, and all is sent again."""
        before, self.instance = self.instance, answer.instance
        if before in ("", answer.instance):
            return False
        log.info("scheduler started anew", extra={"instance": answer.instance})
        self._windows.all_unsent()
        self._faults_told.clear()
        return True

    def _in_trouble(self, message: str, after_s: float) -> None:
        if self.trouble is None:  # once, not at every try
            log.warning("scheduler not reached", extra={"why": message})
        self.trouble = message
        self._backoff_s = max(after_s, min(BACKOFF_MOST_S, 2 * self._backoff_s or BACKOFF_FIRST_S))


def by_http(
    url: str, token: Callable[[], str | None], *, deadline_s: float = 10.0, tls: ssl.SSLContext | None = None
) -> Deliver:
    """To `POST <url>/reports`, with the monitor's token as it is at the time."""
    target = url.rstrip("/") + "/reports"

    async def deliver(batch: Batch) -> Answer:
        secret = token()
        if secret is None:
            raise TryLater("the token file holds no token")
        headers = {"Authorization": bearer(secret), "Content-Type": "application/json"}
        try:
            answered = await call("POST", target, body=batch.to_json(), headers=headers, deadline_s=deadline_s, tls=tls)
        except CallFailed as error:
            raise TryLater(str(error)) from error
        if answered.status == 200:
            try:
                return Answer.from_json(answered.body)
            except BadReport as error:
                raise TryLater(f"{target} answers like no scheduler: {error}") from error
        said = f"{target} answered {answered.status}: {answered.body[:200].decode('utf-8', 'replace')}"
        if answered.status in (400, 413, 422):
            raise NotTaken(said)
        raise TryLater(said, after_s=_after_s(answered.headers))

    return deliver


def _after_s(headers: Mapping[bytes, bytes]) -> float:
    text = headers.get(b"retry-after", b"")
    return min(60.0, float(text)) if text.isdigit() else 0.0
