"""Which replica leads: one Lease object, held by renewing it.

No two clocks are ever compared. A leader counts from the moment it *began* a renewal that succeeded, on its own
monotonic clock, and stops a margin before the lease runs out. A candidate counts from the moment it *saw* the lease
change, on its own, and waits for the whole duration. Seeing comes after beginning, so the old leader has always stopped
before a new one starts, even if it was paused in between: the gate is asked before every write.

Each term has a number, `leaseTransitions`, that only grows: what a leader writes carries it.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Never

from sterna.engines.kubernetes.apiserver.client.backoff import Backoff
from sterna.engines.kubernetes.apiserver.objects import Body, LeaseObject
from sterna.engines.kubernetes.apiserver.port import (
    LEASES,
    AlreadyExists,
    Api,
    Missing,
    NotLeader,
    Urgency,
    WriteConflict,
)
from sterna.engines.kubernetes.process.clock import Clock, SystemClock
from sterna.model.errors import InvalidRequest, SternaError

log = logging.getLogger(__name__)

_RELEASE_S = 5.0  # a shutdown does not wait longer for the API server
_EPOCH_MAX = 2**31 - 1  # the field has 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    duration_s: int = 15
    renew_s: float = 5.0
    retry_s: float = 2.0
    margin_s: float = 2.0  # validity ends this much before others may take over: drifting clocks, writes on their way

    def __post_init__(self) -> None:
        if self.retry_s <= 0 or self.renew_s <= 0 or self.margin_s < 0:
            value = f"renew {self.renew_s:g} s, retry {self.retry_s:g} s, margin {self.margin_s:g} s"
            raise InvalidRequest(field="election", value=value, expected="positive times")
        if self.renew_s + self.retry_s + self.margin_s >= self.duration_s:
            value = f"duration {self.duration_s} s"
            needed = f"more than renew + retry + margin = {self.renew_s + self.retry_s + self.margin_s:g} s"
            raise InvalidRequest(field="election", value=value, expected=needed)


DEFAULT = Timing()


class Election:
    """`api` must be the one without a gate: the gate is what this gives."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        identity: str,  # shown to people; a suffix makes it this process's alone
        name: str = "sterna",
        timing: Timing = DEFAULT,
        clock: Clock | None = None,
        epoch_above: Callable[[], int] = lambda: 0,  # a new term is numbered higher, should the lease have been deleted
        chance: random.Random | None = None,  # of the pauses between tries
    ) -> None:
        self.identity = f"{identity}_{uuid.uuid4().hex[:8]}"
        self._api = api
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._clock: Clock = clock or SystemClock()
        self._epoch_above = epoch_above
        self._chance = chance
        self._lease: LeaseObject | None = None  # as last seen. None: there is none, or it was never seen
        self._seen_s = 0.0  # when it was first seen as it is
        self._valid_until_s = float("-inf")
        self._epoch = 0
        self._highest = 0  # of all transitions ever seen here
        self._renewed_us = 0  # microseconds since 1970, as written last
        self._turn = asyncio.Event()  # set and replaced whenever leading begins or ends

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def valid(self) -> bool:
        return self._clock.mono() < self._valid_until_s

    @property
    def epoch(self) -> int:
        """The number of our own latest term; 0: there was none."""
        return self._epoch

    @property
    def holder(self) -> str:
        """The replica that leads, as last seen; empty: none."""
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    def gate(self) -> None:
        """`NotLeader` unless the lease is valid now."""
        if not self.valid:
            holder = self.holder if self.holder not in ("", self.identity) else "no process that we know of"
            raise NotLeader(f"{self.identity} does not hold lease {self._namespace}/{self._name}; {holder} does")

    async def confirmed(self) -> bool:
        """Does the API server say, now, that this process leads, and that no later term has ever begun?"""
        await self._look()
        there = 0 if self._lease is None else self._lease.spec.lease_transitions or 0
        return self.valid and self.holder == self.identity and there == self._epoch

    async def acquired(self) -> int:
        """Wait until this process leads; the number of the term."""
        while not self.valid:
            await self._turn.wait()
        return self._epoch

    async def lost(self) -> None:
        """Wait until it does not. Found out by the renewing; the gate knows at once."""
        while self.valid:
            await self._turn.wait()

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> Never:
        """Get the lease, keep it, and try again, until cancelled; then give it back, which takes 5 s at most."""
        try:
            while True:
                await self._acquire()
                log.info("leading began", extra={**self._keys, "identity": self.identity})
                self._tell()
                await self._keep()
                self._valid_until_s = float("-inf")
                log.warning("leading ended", extra={**self._keys, "holder": self.holder})
                self._tell()
        finally:
            await self._release()

    async def lead(self, work: Callable[[int], Awaitable[None]]) -> None:
        """`run`, and `work(epoch)` during each term, cancelled when the term ends. Ends when work returns or raises."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.run())
            while True:
                term = asyncio.ensure_future(work(await self.acquired()))
                ending = asyncio.ensure_future(self.lost())
                try:
                    await asyncio.wait({term, ending}, return_when=asyncio.FIRST_COMPLETED)
                    if term.done():
                        break
                finally:
                    await _ended(term, ending)
            running.cancel()
        term.result()

    @property
    def _keys(self) -> dict[str, object]:
        """What the log says of a term."""
        return {"lease": self._name, "epoch": self._epoch}

    def _tell(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()

    async def _acquire(self) -> None:
        pause = Backoff(self._timing.retry_s, self._timing.retry_s, chance=self._chance)  # jittered, not growing
        while True:
            try:
                await self._look()
                if self._is_free() and await self._take():
                    return
            except SternaError as error:
                log.info("lease not acquired", extra={"lease": self._name, "why": str(error)})
            await self._clock.sleep(pause.after())

    async def _keep(self) -> None:
        """Renew until another replica holds the lease or it ran out."""
        pause_s = self._timing.renew_s
        while True:
            left_s = self._valid_until_s - self._clock.mono()
            await self._clock.sleep(min(pause_s, max(0.0, left_s)))
            if not self.valid:
                return
            pause_s = self._timing.renew_s if await self._renewed_in_time() else self._timing.retry_s
            if self.holder != self.identity:
                return

    async def _renewed_in_time(self) -> bool:
        """One renewal, broken off while there is still time for another."""
        left_s = self._valid_until_s - self._clock.mono()
        renewal = asyncio.ensure_future(self._write_over_ours(self.identity, self._timing.duration_s))
        end = asyncio.ensure_future(self._clock.sleep(max(0.0, min(self._timing.renew_s, left_s))))
        try:
            await asyncio.wait({renewal, end}, return_when=asyncio.FIRST_COMPLETED)
            return renewal.done() and renewal.result()
        except SternaError as error:
            log.warning("lease not renewed", extra={"lease": self._name, "why": str(error)})
            return False
        finally:
            await _ended(renewal, end)

    async def _release(self) -> None:
        self._valid_until_s = float("-inf")  # first: nothing is written after the lease is given back
        self._tell()
        if self.holder != self.identity:
            return
        try:
            async with asyncio.timeout(_RELEASE_S):
                await self._write_over_ours("", 1)
        except (SternaError, TimeoutError) as error:
            log.info("lease not released", extra={"lease": self._name, "why": str(error)})

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        try:
            lease = await self._api.get(
                LEASES, self._name, namespace=self._namespace, shape=LeaseObject, urgency=Urgency.LEASE
            )
        except Missing:
            self._lease = None
            return
        self._saw(lease)

    def _saw(self, lease: LeaseObject) -> None:
        """Any write to it counts as a sign of life: it can only make us wait longer."""
        version = lease.metadata.resource_version
        if self._lease is None or self._lease.metadata.resource_version != version:
            self._seen_s = self._clock.mono()
        self._lease = lease
        self._highest = max(self._highest, lease.spec.lease_transitions or 0)

    def _is_free(self) -> bool:
        if self._lease is None or self.holder in ("", self.identity):
            return True  # ours that ran out: the write over what we saw proves that no other replica held it since
        duration_s = self._lease.spec.lease_duration_seconds or self._timing.duration_s
        return self._clock.mono() - self._seen_s > duration_s

    async def _take(self) -> bool:
        epoch = min(_EPOCH_MAX, max(self._highest, self._epoch_above()) + 1)
        try:
            await self._write(self.identity, duration_s=self._timing.duration_s, epoch=epoch)
        except (WriteConflict, AlreadyExists):
            return False  # another replica was faster: look again
        self._epoch = epoch
        return True

    async def _write_over_ours(self, holder: str, duration_s: int) -> bool:
        """Renew it, or give it back. False: it is not ours any more, or another writer touches it all the time."""
        for _ in range(2):
            # A number never goes down: giving back may follow an acquisition whose answer was lost.
            epoch = self._epoch if holder else self._highest
            try:
                await self._write(holder, duration_s=duration_s, epoch=epoch)
                return True
            except (WriteConflict, Missing):
                await self._look()  # another writer touched it, or an earlier renewal without an answer did arrive
            if self.holder != self.identity:
                self._valid_until_s = float("-inf")
                return False
        return False

    async def _write(self, holder: str, *, duration_s: int, epoch: int) -> None:
        """Only over the lease as we saw it last, so that of two writers one is refused."""
        began_s = self._clock.mono()
        seen = self._lease
        # Whole microseconds, as they are written: a renewal that says the same as the last one changes nothing on the
        # server, so candidates would see no sign of life from a leader whose wall clock was set back.
        self._renewed_us = max(int(self._clock.wall() * 1e6), self._renewed_us + 1)
        now = _micro_time(self._renewed_us)
        acquired = seen.spec.acquire_time if seen is not None and self.holder == holder else now
        body: Body = {
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration_s,
                "acquireTime": acquired,
                "renewTime": now,
                "leaseTransitions": epoch,
            },
        }
        if seen is None:
            lease = await self._api.create(
                LEASES, body, namespace=self._namespace, shape=LeaseObject, urgency=Urgency.LEASE
            )
        else:
            body["metadata"]["resourceVersion"] = seen.metadata.resource_version
            lease = await self._api.patch(  # not replaced: labels and annotations on it are not ours
                LEASES, self._name, body, namespace=self._namespace, shape=LeaseObject, urgency=Urgency.LEASE
            )
        self._saw(lease)
        if seen is not None and lease.metadata.resource_version == seen.metadata.resource_version:
            raise WriteConflict(f"writing lease {self._namespace}/{self._name} changed nothing")  # no sign of life
        if holder == self.identity:
            self._valid_until_s = began_s + duration_s - self._timing.margin_s


async def _ended(*tasks: "asyncio.Future[None] | asyncio.Future[bool]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _micro_time(since_1970_us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_1970_us)  # exact, unlike a float
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
