"""How often one object may be written: far more often than any work needs, and not without end.

A value that cannot be read back, or a controller that undoes what we write, makes a loop of writes as fast as the API
server answers. Each object has a budget of writes that fills up again with time. When it is used up the fuse blows, and
from then on writes of that object are let through one by one with growing pauses, until half of the budget is there
again. A write that is held back is not kept: it is refused with the time after which to ask again, and whatever asks
looks first, so that what is written then is the latest.

A job of 40 workers that is scaled between 2 and 40 as often as it goes is written 30 times in 7 s. Deletions have a
budget of their own, so that no fight about a status keeps a pod from going.
"""

import logging
from collections import OrderedDict
from itertools import islice
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.port import Resource, TooOften
from sterna.engines.kubernetes.process.clock import Clock

log = logging.getLogger(__name__)

BURST = 300  # writes of one object at once
REFILL_S = 1.0  # and one more in this time
PAUSE_S, PAUSE_MAX_S = 1.0, 5.0  # between writes once it has blown
OBJECTS_MAX = 10_000  # whose writes are counted


class Written(NamedTuple):
    """What is counted together."""

    resource: Resource
    namespace: str
    name: str
    part: str = ""  # a subresource, or "deletion". Empty: the object itself

    def __str__(self) -> str:
        part = f" ({self.part})" if self.part else ""
        return f"{self.resource.kind} {self.namespace}/{self.name}{part}"


class _Budget:
    __slots__ = ("as_of_s", "blown", "left", "next_s", "pause_s")

    def __init__(self, now_s: float) -> None:
        self.left = float(BURST)
        self.as_of_s = now_s
        self.blown = False
        self.pause_s = PAUSE_S  # the next one, where it is blown
        self.next_s = now_s

    def left_at(self, now_s: float) -> float:
        return min(float(BURST), self.left + max(0.0, now_s - self.as_of_s) / REFILL_S)


class WriteFuse:
    """One for all objects. What blows is logged once, until half of the budget is there again."""

    def __init__(self, clock: Clock) -> None:
        self.blown = 0  # how often a fuse blew
        self.held_back = 0  # writes that were refused
        self._clock = clock
        self._budgets: OrderedDict[Written, _Budget] = OrderedDict()

    def __len__(self) -> int:
        return len(self._budgets)

    def spend(self, written: Written) -> None:
        """Count one write that is about to be sent. `TooOften`: it must not be."""
        now_s = self._clock.mono()
        self._forget_the_full(now_s)
        budget = self._budgets.pop(written, None) or _Budget(now_s)
        self._budgets[written] = budget  # the latest is the last
        budget.left, budget.as_of_s = budget.left_at(now_s), now_s
        if budget.blown and budget.left >= BURST / 2:
            budget.blown = False
        if not budget.blown and budget.left < 1.0:
            self._blow(written, budget, now_s)
        if budget.blown:
            self._wait_or_pass(written, budget, now_s)
        budget.left = max(0.0, budget.left - 1.0)

    def _blow(self, written: Written, budget: _Budget, now_s: float) -> None:
        budget.blown, budget.pause_s, budget.next_s = True, PAUSE_S, now_s + PAUSE_S
        self.blown += 1
        log.warning("object is written too often", extra={"object": str(written), "writes": BURST})

    def _wait_or_pass(self, written: Written, budget: _Budget, now_s: float) -> None:
        if now_s < budget.next_s:
            self.held_back += 1
            message = f"{written} was written more than {BURST} times at once, as if something undid it each time"
            raise TooOften(message, retry_after_s=budget.next_s - now_s)
        budget.pause_s = min(PAUSE_MAX_S, 2.0 * budget.pause_s)
        budget.next_s = now_s + budget.pause_s

    def _forget_the_full(self, now_s: float) -> None:
        """A full budget is the same as none, and most objects are written a few times and then no more."""
        for written, budget in [*islice(self._budgets.items(), 2)]:  # two, as one is added at a time: it can shrink
            if budget.left_at(now_s) >= BURST or len(self._budgets) >= OBJECTS_MAX:
                del self._budgets[written]
