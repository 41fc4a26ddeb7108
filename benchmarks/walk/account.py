"""From notes of visits to a walk: which modules, in which order, how often control crossed, which were entered again.

Pure but for reading the file. The definitions:

- A module is **on the walk** when one of its functions begins between the start and the end of the walk.
- A **call across modules** is a visit: a function that begins, called from another module, the event loop or a thread.
- **Background** is what goes on without a job. The same process is watched idle first; a root (the outermost function
  of a task, a callback or a thread) that enters no other modules during the walk than it did while idle does what it
  always does, and is left out with all that it calls. Several jobs walk one after the other, each when the one before
  is gone: a module that is not on every one of these walks was there by chance, or once and for all, and is left out.
- A module is **re-entered** when one and the same visit of another module goes into it, then into a third module, and
  then into it again. That is what a reader pays for: to leave a page and to come back to it within one train of
  thought. Calls in a row count once. Calls from another place do not count: that is reuse. Nor do visits to `model`,
  and visits that go nowhere else: to look at a value or to ask a helper is not to walk there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

NOBODY = "-"  # the parent of a visit that began in the event loop, in a thread, or with the process
_VALUES = "sterna.model."


@dataclass(slots=True)
class Visit:
    entered_s: float
    process: int
    id: str
    parent: str
    module: str
    function: str
    left_s: float | None = None  # None: not left while it was recorded


class Notes:
    """All that recorded processes wrote down, in the order of time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.by_id: dict[str, Visit] = {}
        executed_s: dict[str, float] = {}  # a search along PATH tries several times, and only the last one succeeds
        for line in lines:
            at, kind, process, *fields = line.rstrip("\n").split("\t")
            match kind, fields:
                case "enter", [visit, parent, module, function]:
                    self.by_id[visit] = Visit(float(at), int(process), visit, parent, module, function)
                case "leave", [visit]:
                    self.by_id[visit].left_s = float(at)
                case "exec", []:
                    executed_s[process] = float(at)
        self.executed_s = sorted(executed_s.values())  # when children became other programs
        self.visits = sorted(self.by_id.values(), key=lambda visit: visit.entered_s)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        """What is in the file so far; a line that is still being written is left for the next time."""
        text = path.read_text(encoding="utf-8")
        return cls(text[: text.rfind("\n") + 1].splitlines())

    def ancestry(self, visit: Visit) -> list[Visit]:
        """From this visit outwards."""
        found = [visit]
        while found[-1].parent in self.by_id:
            found.append(self.by_id[found[-1].parent])
        return found


class Window(NamedTuple):
    began_s: float
    ended_s: float

    def holds(self, visit: Visit) -> bool:
        return self.began_s <= visit.entered_s <= self.ended_s


@dataclass(frozen=True, slots=True)
class Station:
    """One module of a walk."""

    module: str
    part: str  # of the walk: in which process, or before which door
    calls: int  # across modules, into this one
    reentered: int  # the most within one visit of a caller
    functions: tuple[str, ...]  # by which it is entered, in order


@dataclass(frozen=True, slots=True)
class Walk:
    title: str
    judged: str  # the part that the limits are about
    stations: tuple[Station, ...]  # in the order in which the walk comes to them

    def of_part(self, part: str) -> list[Station]:
        return [station for station in self.stations if station.part == part]

    @property
    def modules(self) -> int:
        return len(self.of_part(self.judged))

    @property
    def calls(self) -> int:
        return sum(station.calls for station in self.of_part(self.judged))

    @property
    def reentered(self) -> int:
        return max((station.reentered for station in self.of_part(self.judged)), default=0)

    def document(self) -> dict[str, Any]:
        return {"modules": self.modules, "calls": self.calls, "reentered": self.reentered, **asdict(self)}


PartOf = Callable[[Visit], str | None]  # None: no part of the walk


def walk_of(
    title: str, notes: Notes, windows: Sequence[Window], parts: Sequence[PartOf], *, idle: Window, judged: str
) -> Walk:
    """The walk that the jobs of all `windows` share. Its numbers are those of the job with the fewest calls."""
    walks = [_stations(notes, window, part_of, idle) for window, part_of in zip(windows, parts, strict=True)]
    common = set.intersection(*({(one.module, one.part) for one in walk} for walk in walks))
    shortest = min(walks, key=lambda walk: sum(one.calls for one in walk))
    return Walk(title, judged, tuple(one for one in shortest if (one.module, one.part) in common))


def _stations(notes: Notes, window: Window, part_of: PartOf, idle: Window) -> list[Station]:
    always = _reached(notes, idle)
    now = _reached(notes, window)
    background = {root for root, modules in now.items() if modules <= always.get(root, set())}
    on_it = [
        (visit, part)
        for visit in notes.visits
        if window.holds(visit)
        and _root(notes, visit, window) not in background
        and (part := part_of(visit)) is not None
    ]
    again = _reentered([visit for visit, _ in on_it])
    found: dict[tuple[str, str], list[Visit]] = {}
    for visit, part in on_it:
        found.setdefault((visit.module, part), []).append(visit)
    return [
        Station(module, part, len(visits), again[module], tuple(dict.fromkeys(visit.function for visit in visits)))
        for (module, part), visits in found.items()
    ]


def _root(notes: Notes, visit: Visit, window: Window) -> tuple[str, str]:
    """The outermost function that began in this window, and the older one that called it, if there is one."""
    outermost = [one for one in notes.ancestry(visit) if window.holds(one)][-1]
    host = notes.by_id.get(outermost.parent)
    return (f"{host.module}.{host.function}" if host else NOBODY, f"{outermost.module}.{outermost.function}")


def _reached(notes: Notes, window: Window) -> dict[tuple[str, str], set[str]]:
    """Which modules each root enters."""
    found: dict[tuple[str, str], set[str]] = {}
    for visit in notes.visits:
        if window.holds(visit):
            found.setdefault(_root(notes, visit, window), set()).add(visit.module)
    return found


def _reentered(visits: Sequence[Visit]) -> Counter[str]:
    """By module: how often one visit came back to it, at most."""
    walking = [visit for visit in visits if not visit.module.startswith(_VALUES)]
    parents = {visit.parent for visit in walking}
    ways: dict[str, list[str]] = {}  # by caller: the modules it goes through, one after the other
    for visit in walking:
        way = ways.setdefault(visit.parent, [])
        if visit.id in parents and visit.parent != NOBODY and way[-1:] != [visit.module]:
            way.append(visit.module)
    most: Counter[str] = Counter()
    for way in ways.values():
        for module, times in Counter(way).items():
            most[module] = max(most[module], times - 1)
    return most
