"""What a user of `sterna top` chose by keys: which jobs are shown, and in which order. Pure: a key in, a view out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sterna.interfaces.reports.record_tables import PHASES, short_id
from sterna.interfaces.reports.spans import age_s

Record = dict[str, Any]

_ENDED = ("Succeeded", "Failed")
_HIDDEN_AFTER_S = 300.0  # how long a job that has ended stays in the picture
_ENTER, _ESCAPE, _RUBOUT = ("\r", "\n"), "\x1b", ("\x7f", "\b")
_FILTER_MAX = 60


def _by_state(job: Record) -> tuple[int, str]:
    phase = str(job["phase"])
    return (PHASES.index(phase) if phase in PHASES else len(PHASES)), str(job.get("submittedAt") or "")


_ORDERS: dict[str, Callable[[Record], Any]] = {
    "state": _by_state,
    "name": lambda job: str(job["name"]),
    "age": lambda job: str(job.get("submittedAt") or ""),
    "size": lambda job: -((job.get("workers") or {}).get("current") or 0),
    "progress": lambda job: -(job.get("progress") or 0.0),
}


@dataclass(frozen=True, slots=True)
class TopView:
    order: str = "state"
    filter: str = ""
    is_typing: bool = False  # keys go into the filter
    shows_ended: bool = False  # those that ended a while ago, too
    is_left: bool = False

    def after(self, key: str) -> "TopView":
        """As this key makes it; keys that mean nothing change nothing."""
        if self.is_typing:
            return self._typed(key)
        match key:
            case "q" | "\x03" | "\x04":
                return replace(self, is_left=True)
            case "s":
                names = list(_ORDERS)
                return replace(self, order=names[(names.index(self.order) + 1) % len(names)])
            case "/":
                return replace(self, is_typing=True, filter="")
            case "a":
                return replace(self, shows_ended=not self.shows_ended)
            case "\x1b":
                return replace(self, filter="")
        return self

    def _typed(self, key: str) -> "TopView":
        if key in _ENTER:
            return replace(self, is_typing=False)
        if key == _ESCAPE:
            return replace(self, is_typing=False, filter="")
        if key in _RUBOUT:
            return replace(self, filter=self.filter[:-1])
        if key.isprintable():
            return replace(self, filter=(self.filter + key)[:_FILTER_MAX])
        return self

    def chosen(self, jobs: Sequence[Record], now: datetime) -> list[Record]:
        """The jobs to show, in order."""
        shown = [job for job in jobs if self._is_shown(job, now)]
        return sorted(shown, key=lambda job: (_ORDERS[self.order](job), str(job["id"])))

    def _is_shown(self, job: Record, now: datetime) -> bool:
        words = f"{short_id(job['id'])} {job['phase']} {job.get('reason') or ''}".lower()
        if self.filter.lower() not in words:
            return False
        if self.shows_ended or job["phase"] not in _ENDED:
            return True
        ended_s = age_s(job.get("finishedAt"), now)
        return ended_s is None or ended_s < _HIDDEN_AFTER_S

    @property
    def legend(self) -> str:
        """What the keys do, in a line."""
        if self.is_typing:
            return f"filter: {self.filter}_  (enter keeps it, escape clears it)"
        kept = f" [{self.filter}]" if self.filter else ""
        ended = "hide ended" if self.shows_ended else "all ended"
        return f"q quit  s sort: {self.order}  / filter{kept}  a {ended}"
