"""When to save: often enough to lose little, seldom enough to cost little.

Pure: the caller brings times, nothing here reads a clock.
"""

_NEWS = 0.5  # weight of the latest save in the running means: one cold start is forgotten after a few
_BREATH = 1.5  # a save begins no sooner than this many times the duration of one: they never queue up


class SaveInterval:
    """Told what saves cost, says at each step boundary whether to begin one.

    Three rules, the stronger ones last: training stands still for at most `stall_share` of the time; no more than
    about `max_s` of work is ever at risk; a save never begins while another is under way.
    """

    def __init__(self, *, min_s: float = 10.0, max_s: float = 600.0, stall_share: float = 0.01) -> None:
        if not 0 < stall_share < 1 or not 0 <= min_s <= max_s:
            raise ValueError(f"expected 0 < stall_share < 1 and min_s <= max_s: {stall_share=}, {min_s=}, {max_s=}")
        self._min_s = min_s
        self._max_s = max_s
        self._stall_share = stall_share
        self._stall_s: float | None = None
        self._save_s: float | None = None

    def saved(self, *, stall_s: float, save_s: float, slowdown_s: float = 0.0) -> None:
        """Learn from a save that is done (or has failed: then it cost as much).

        `slowdown_s`, for callers who measure it: by how much the steps beside the save took longer than they do alone.
        """
        self._stall_s = _mean(self._stall_s, stall_s + slowdown_s)
        self._save_s = _mean(self._save_s, save_s)

    @property
    def interval_s(self) -> float:
        """From the beginning of one save to that of the next."""
        for_stall_s = (self._stall_s or 0.0) / self._stall_share
        for_write_s = (self._save_s or 0.0) * _BREATH
        return max(min(max(self._min_s, for_stall_s), self._max_s), for_write_s)

    def due(self, *, since_last_s: float, step_s: float, saving: bool) -> bool:
        """Whether to begin a save at this boundary; `since_last_s` since the last one began (or training did)."""
        if saving:
            return False
        interval_s = self.interval_s
        if since_last_s >= interval_s:
            return True
        # With steps of minutes the next boundary may lie far beyond the limit: then rather a little early than late.
        return since_last_s + step_s > self._max_s and since_last_s >= interval_s / 2


def _mean(before: float | None, news: float) -> float:
    return news if before is None else before + _NEWS * (news - before)
