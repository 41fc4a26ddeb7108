"""Every job is looked at again now and then, although nothing was heard of it, so that a change that was missed heals.

Each in its own rhythm, which follows from its uid: the period and up to a fifth more or less, so that jobs that were
submitted together, or seen together by a new leader, are not looked at together for ever.
"""

import heapq
import math
from collections.abc import Container
from zlib import crc32

_SPREAD = 0.2


class SlowPass:
    """Keeps one moment for each job that it was told of. Nothing here reads a clock."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._heap: list[tuple[float, str]] = []
        self._known: set[str] = set()

    def begin(self) -> None:
        self._heap.clear()
        self._known.clear()

    def add(self, uid: str, now_s: float) -> None:
        """From now on, unless it takes part already."""
        if uid not in self._known:
            self._known.add(uid)
            heapq.heappush(self._heap, (now_s + self.rhythm_s(uid), uid))

    def forget(self, uid: str) -> None:
        if uid in self._known:
            self._known.discard(uid)
            self._heap = [entry for entry in self._heap if entry[1] != uid]
            heapq.heapify(self._heap)

    def due(self, now_s: float, there: Container[str]) -> list[str]:
        """Those whose moment has come; each comes again. Jobs that are not `there` any more are forgotten."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= now_s:
            _, uid = heapq.heappop(self._heap)
            if uid in there:
                found.append(uid)
                heapq.heappush(self._heap, (now_s + self.rhythm_s(uid), uid))
            else:
                self._known.discard(uid)
        return found

    @property
    def next_s(self) -> float:
        """When the next is due; infinite: there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def rhythm_s(self, uid: str) -> float:
        share = crc32(uid.encode()) / 0xFFFFFFFF
        return self._period_s * (1.0 - _SPREAD + 2.0 * _SPREAD * share)
