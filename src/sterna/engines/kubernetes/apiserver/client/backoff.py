"""How long to wait before trying again: doubled each time, bounded, and different for callers that failed together."""

import random

_CHANCE = random.Random()


class Backoff:
    """`after()` is the next pause, between half and all of what the number of failures says; `reset()` on success."""

    __slots__ = ("_chance", "_failures", "_first_s", "_max_s")

    def __init__(self, first_s: float, max_s: float, *, chance: random.Random | None = None) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._chance = chance or _CHANCE
        self._failures = 0

    def after(self) -> float:
        pause_s = min(self._max_s, self._first_s * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return pause_s * self._chance.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0
