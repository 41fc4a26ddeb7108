"""Where two decisions part: the first value that was recorded one way and comes out another now."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from sterna.journal.replay import Replayed

_ABSENT = "nothing"
_WORDS_MAX = 120


class Difference(NamedTuple):
    line: int  # of the journal
    path: str  # plan[0].actions[1].to[0].node
    recorded: str
    now: str

    @property
    def sentence(self) -> str:
        return f"journal line {self.line}: {self.path}: recorded {self.recorded}, now {self.now}"


def first_difference(replayed: Replayed) -> Difference:
    """Of two decisions that are not the same, in the order in which a decision is written."""
    pairs = _differences(json.loads(replayed.recorded), json.loads(replayed.again), "")
    path, recorded, now = next(pairs, ("order of keys", replayed.recorded, replayed.again))
    return Difference(replayed.line, path, _short(recorded), _short(now))


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
