"""A log that clients cannot fill: of one phrase, one line in a while, with how many there were."""

import logging
import time
from collections.abc import Callable

EVERY_S = 60.0

_PHRASES_MAX = 100


class Seldom(logging.Filter):
    """Lets the first record of a phrase through, then one in `every_s`; `suppressed` says how many it stands for."""

    def __init__(self, *, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s = every_s
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}  # by phrase: when it was let through, and how often not since

    def filter(self, record: logging.LogRecord) -> bool:
        phrase, now_s = str(record.msg), self._clock()
        said_s, suppressed = self._last.get(phrase, (-self._every_s, 0))
        if now_s - said_s < self._every_s:
            self._last[phrase] = (said_s, suppressed + 1)
            return False
        if len(self._last) >= _PHRASES_MAX:
            self._last.clear()
        self._last[phrase] = (now_s, 0)
        if suppressed:
            record.suppressed = suppressed
        return True
