"""Which request goes first when more wait than may be sent at once: the more urgent, and among equals the older.

One turn in `TURNS_FOR_PATIENCE` goes to the request that waits longest, so that a busy hour of placing does not starve
reports. Renewals of the lease never wait: a leader that cannot renew in time has to stop everything else.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sterna.engines.kubernetes.apiserver.port import Throttled, Urgency

TURNS_FOR_PATIENCE = 16
_EVENTS_AGAIN_S = 5.0


class _Ticket:
    __slots__ = ("called", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.called: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Turnstile:
    """At most `places` requests at once; the others wait for their turn."""

    def __init__(self, places: int, *, waiting_events: int) -> None:
        self._places = places
        self._waiting_events = waiting_events
        self._inside = 0
        self._tickets = 0
        self._turns = 0
        self._lines: dict[Urgency, deque[_Ticket]] = {urgency: deque() for urgency in Urgency}

    @property
    def inside(self) -> int:
        return self._inside

    @property
    def waiting(self) -> int:
        return sum(len(line) for line in self._lines.values())

    @asynccontextmanager
    async def turn(self, urgency: Urgency) -> AsyncIterator[None]:
        """`Throttled` for an event when too many wait already."""
        await self._enter(urgency)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, urgency: Urgency) -> None:
        if urgency is Urgency.LEASE or self._inside < self._places:
            self._inside += 1
            return
        if urgency is Urgency.EVENT and self.waiting >= self._waiting_events:
            message = f"{self.waiting} requests to the API server wait, so events are dropped"
            raise Throttled(message, retry_after_s=_EVENTS_AGAIN_S)
        self._tickets += 1
        ticket = _Ticket(self._tickets)
        self._lines[urgency].append(ticket)
        try:
            await ticket.called  # the request that leaves hands over its place, so `_inside` stays as it is
        except asyncio.CancelledError:
            if ticket.called.cancelled():
                self._forget(urgency, ticket)
            else:
                self._leave()  # the place was handed over in the moment of cancelling
            raise

    def _leave(self) -> None:
        while self._inside <= self._places and (ticket := self._next()) is not None:
            if not ticket.called.done():  # else it is being cancelled
                ticket.called.set_result(None)
                return
        self._inside -= 1

    def _next(self) -> _Ticket | None:
        lines = [line for line in self._lines.values() if line]
        if not lines:
            return None
        self._turns += 1
        if self._turns % TURNS_FOR_PATIENCE == 0:
            return min(lines, key=lambda line: line[0].number).popleft()
        return lines[0].popleft()

    def _forget(self, urgency: Urgency, ticket: _Ticket) -> None:
        with suppress(ValueError):  # already taken out by a request that left
            self._lines[urgency].remove(ticket)
