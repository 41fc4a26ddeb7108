"""How often the status of a job is written again that another client writes over: a few times at once, then seldom.

Two writers that undo each other's writes would otherwise do nothing else. What the other one wrote is not believed in
the meantime; the job is only looked at less often.
"""

AT_ONCE = 3
APART_S = 30.0


class Restores:
    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # by uid: how many may follow at once, as of when

    def next_s(self, uid: str, now_s: float) -> float | None:
        """When the status of this job may be written again. None: now, which is counted."""
        left, as_of_s = self._left.get(uid, (float(AT_ONCE), now_s))
        left = min(float(AT_ONCE), left + (now_s - as_of_s) / APART_S)
        if left < 1.0:
            self._left[uid] = (left, now_s)
            return now_s + (1.0 - left) * APART_S
        self._left[uid] = (left - 1.0, now_s)
        return None

    def forget(self, uid: str) -> None:
        self._left.pop(uid, None)
