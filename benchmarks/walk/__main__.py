"""Through how many modules a job walks: from `submit` to a launched process, and from an API object to a created pod.

    python -m benchmarks.walk [--only local,kubernetes] [--jobs 3] [--idle 8] [--out FILE]

Prints each walk as the list of its modules in the order in which a job first comes to them: how often control crosses
into the module, how often one caller comes back to it, and by which functions. Ends with 1 when a walk has more than 70
modules or a module that is re-entered more than twice. What is counted is defined in `benchmarks.walk.account`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.walk.account import Station, Walk

MODULES_MAX = 70
REENTERED_MAX = 2
FIRST_MEASURED = 108  # modules of either walk, before engines had rooms
_FUNCTIONS_SHOWN = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="local,kubernetes", help="which engines")
    parser.add_argument("--jobs", type=int, default=3, help="walks of each engine; what they share is counted")
    parser.add_argument("--idle", type=float, default=8.0, help="seconds in which an engine is watched without a job")
    parser.add_argument("--out", metavar="FILE", help="write both walks there as JSON")
    given = parser.parse_args()
    walks = {name: _walked(_PLAYED[name], given.jobs, given.idle) for name in given.only.split(",")}
    for walk in walks.values():
        print("\n".join(told(walk)), end="\n\n")
    if given.out:
        document = {name: walk.document() for name, walk in walks.items()}
        Path(given.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    broken = [line for walk in walks.values() for line in beyond(walk)]
    print("\n".join(broken) or "both limits are kept")
    return 1 if broken else 0


def told(walk: Walk) -> list[str]:
    """The walk as lines of text."""
    parts = list(dict.fromkeys(station.part for station in walk.stations))
    lines = [f"{walk.title}: {walk.modules} modules (limit {MODULES_MAX}, {FIRST_MEASURED} when first measured), "
             f"{walk.calls} calls across modules"]  # fmt: skip
    for part in parts:
        stations = walk.of_part(part)
        note = "" if part == walk.judged else ", not judged"
        lines.append(f"  -- {part}: {len(stations)} modules{note}")
        lines += [_line(number, station) for number, station in enumerate(stations, 1)]
    return lines


def _line(number: int, station: Station) -> str:
    shown = ", ".join(station.functions[:_FUNCTIONS_SHOWN])
    more = len(station.functions) - _FUNCTIONS_SHOWN
    also = f" and {more} more" if more > 0 else ""
    again = f"{station.reentered}x again" if station.reentered else ""
    return f"  {number:3} {station.module.removeprefix('sterna.'):46}{station.calls:4} {again:9} {shown}{also}"


def beyond(walk: Walk) -> list[str]:
    """Which limits this walk breaks, as sentences."""
    lines = []
    if walk.modules > MODULES_MAX:
        lines.append(f"{walk.title}: {walk.modules} modules, the limit is {MODULES_MAX}")
    lines += [
        f"{walk.title}: {station.module} is re-entered {station.reentered} times, the limit is {REENTERED_MAX}"
        for station in walk.of_part(walk.judged)
        if station.reentered > REENTERED_MAX
    ]
    return lines


def _local(directory: Path, *, jobs: int, idle_s: float) -> Walk:
    from benchmarks.walk.local import local_walk

    return local_walk(directory, jobs=jobs, idle_s=idle_s)


def _kubernetes(directory: Path, *, jobs: int, idle_s: float) -> Walk:
    from benchmarks.walk.cluster import cluster_walk  # its control plane needs more than the local engine does

    return cluster_walk(directory, jobs=jobs, idle_s=idle_s)


_PLAYED: dict[str, Callable[..., Walk]] = {"local": _local, "kubernetes": _kubernetes}


def _walked(play: Callable[..., Walk], jobs: int, idle_s: float) -> Walk:
    with tempfile.TemporaryDirectory(prefix="sterna-walk-") as directory:
        return play(Path(directory), jobs=jobs, idle_s=idle_s)


if __name__ == "__main__":
    sys.exit(main())
