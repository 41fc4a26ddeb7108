"""Reports that could not be taken, as their job is told of them: counted, and told once in `TOLD_EVERY_S` at most."""

from sterna.protocol.reports import Refusal

TOLD_EVERY_S = 60.0


class Refusals:
    """By uid of the job. No clock of its own."""

    def __init__(self) -> None:
        self._untold: dict[str, int] = {}
        self._told_s: dict[str, float] = {}

    def message(self, uid: str, refusal: Refusal, now_s: float) -> str | None:
        """What to tell the job's owner now. None: it was told a moment ago, and this one is counted for the next."""
        count = self._untold.get(uid, 0) + 1
        if 0 <= now_s - self._told_s.get(uid, -TOLD_EVERY_S) < TOLD_EVERY_S:
            self._untold[uid] = count
            return None
        self._untold.pop(uid, None)
        self._told_s[uid] = now_s
        what = "a report was not taken" if count == 1 else f"{count} reports were not taken, the latest"
        return f"{what}: {refusal.pod}: {refusal.why}"

    def forget(self, uid: str) -> None:
        self._untold.pop(uid, None)
        self._told_s.pop(uid, None)
