"""Where two decisions part: the first value that was recorded one way and comes out another now."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sterna.journal.replay import Entry, Replayed

_ABSENT = "nothing"
_WORDS_MAX = 120


class Difference(NamedTuple):
    line: int  # of the journal
    path: str  # plan[0].actions[1].to[0].node
    recorded: str
    now: str
    decision: str = ""  # its id. Empty: the journal does not say
    file: str = ""  # where it is. Empty: there is one only

    @property
    def sentence(self) -> str:
        where = f"{self.file}: " if self.file else ""
        which = f"decision {self.decision}: " if self.decision else ""
        return f"{where}journal line {self.line}: {which}{self.path}: recorded {self.recorded}, now {self.now}"


class Tally:
    """What came of a whole journal, which may be several files."""

    def __init__(self) -> None:
        self.decisions = 0
        self.different = 0
        self.beside = 0  # decisions that depend on more than their snapshot, and are not decided again
        self.dropped = 0  # entries that are missing
        self.first: Difference | None = None  # None: all were the same

    def count(self, replayed: Replayed, *, file: str) -> Difference | None:
        """None: it came out the same."""
        self.decisions += 1
        if replayed.same:
            return None
        self.different += 1
        found = first_difference(replayed)._replace(file=file)
        self.first = self.first or found
        return found

    def pass_over(self, entry: Entry) -> None:
        if entry.kind == "dropped":
            entries = entry.parts.get("entries")
            self.dropped += entries if isinstance(entries, int) else 0
        else:
            self.beside += 1

    @property
    def sentence(self) -> str:
        came_out = f"{self.different:,} of them different" if self.different else "all the same"
        parts = [f"{self.decisions:,} decisions, {came_out}"]
        if self.beside:
            parts.append(f"{self.beside:,} more include moves that were begun or asked for and are not decided again")
        if self.dropped:
            parts.append(f"{self.dropped:,} entries were dropped when the journal was written")
        return "; ".join(parts)

    def to_record(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "same": not self.different,
            "different": self.different,
            "notDecidedAgain": self.beside,
            "dropped": self.dropped,
            "difference": None if self.first is None else self.first._asdict(),
        }


def first_difference(replayed: Replayed) -> Difference:
    """Of two decisions that are not the same, in the order in which a decision is written."""
    pairs = _differences(json.loads(replayed.recorded), json.loads(replayed.again), "")
    path, recorded, now = next(pairs, ("order of keys", replayed.recorded, replayed.again))
    return Difference(replayed.line, path, _short(recorded), _short(now), replayed.decision_id)


def _differences(recorded: Any, now: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in {**now, **recorded}:
            yield from _differences(recorded.get(key, _ABSENT), now.get(key, _ABSENT), f"{path}.{key}".lstrip("."))
    elif isinstance(recorded, list) and isinstance(now, list):
        for index in range(max(len(recorded), len(now))):
            one, other = (values[index] if index < len(values) else _ABSENT for values in (recorded, now))
            yield from _differences(one, other, f"{path}[{index}]")
    elif recorded != now or type(recorded) is not type(now):
        yield path, recorded, now


def _short(value: Any) -> str:
    words = value if value is _ABSENT else json.dumps(value)
    return words if len(words) <= _WORDS_MAX else words[: _WORDS_MAX - 3] + "..."
