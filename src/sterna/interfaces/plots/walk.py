"""The walk of a job through the modules: one row a module, in the order in which the job first comes there.

Drawn from what `python -m benchmarks.walk --out FILE` writes. Narrow on purpose: it is read on a page beside text, and
on a telephone.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from sterna.interfaces.plots.chart_frame import TITLE_PX, heading
from sterna.interfaces.plots.svg import COLOURS, document, polyline, tag, text, text_width

_WIDTH = 420.0
_ROW_PX = 16.0
_LANE_PX = 9.0
_LEFT = 16.0
_DOT_PX = 3.6
_KEY_ROW_PX = 17.0
_PREFIX = "sterna."
_COMMON = "engines."  # a walk is in one engine, whose lane says so; without it the longest names fit
_LAUNCH = "local.launch."  # the warden stands alone there


class _Stop(NamedTuple):
    lane: int
    y: float


def walk_plot(walk: Mapping[str, Any], *, width: float = _WIDTH) -> str:
    """`walk` is one of the walks in the benchmark's file. A lane is a storey: the line shows each change of storey."""
    stations: Sequence[Mapping[str, Any]] = walk["stations"]
    lanes = list(dict.fromkeys(_storey(station["module"]) for station in stations))
    key, top = _key(lanes, TITLE_PX + 24, width)
    rows, stops, bottom = _rows(stations, lanes, walk["judged"], top, width)
    line = polyline([(_x(stop.lane), stop.y) for stop in stops], class_="line axis")
    counted = f"{walk['modules']} modules, {walk['calls']} calls across modules"
    return document(
        heading(walk["title"]),
        text(12, TITLE_PX + 6, f"{counted} in the part “{walk['judged']}”", class_="soft small"),
        key,
        tag("g", line, opacity=0.6),
        *rows,
        width=width,
        height=bottom + 8,
        title=walk["title"],
        description=f"{counted}. One row a module, from top to bottom in the order in which a job first comes to it.",
    )


def shown_name(module: str) -> str:
    """A module as its row names it: what several have in common says nothing, and rows are short."""
    return module.removeprefix(_PREFIX).removeprefix(_COMMON).removeprefix(_LAUNCH)


def _rows(
    stations: Sequence[Mapping[str, Any]], lanes: list[str], judged: str, top: float, width: float
) -> tuple[list[str], list[_Stop], float]:
    rows: list[str] = []
    stops: list[_Stop] = []
    y, part = top, ""
    words_left = _x(len(lanes)) + 6
    for station in stations:
        if station["part"] != part:
            part = station["part"]
            y += _ROW_PX * 1.4
            count = sum(1 for one in stations if one["part"] == part)
            rows.append(text(words_left, y - 3, f"{part}: {count} modules"))
            rows.append(tag("line", class_="grid", x1=_LEFT, y1=y + 2, x2=width - 12, y2=y + 2))
        y += _ROW_PX
        lane = lanes.index(_storey(station["module"]))
        stops.append(_Stop(lane, y - 4))
        rows.append(_row(station, lane, y, words_left, width, soft=part != judged))
    return rows, stops, y


def _row(station: Mapping[str, Any], lane: int, y: float, left: float, width: float, *, soft: bool) -> str:
    look = "soft small" if soft else "small"
    told = f"{station['module']}: {', '.join(station['functions'])}"
    dot = tag("circle", class_=f"f{lane % COLOURS}", cx=_x(lane), cy=y - 4, r=_DOT_PX)
    name = text(left, y, shown_name(station["module"]), class_=look)
    calls = text(width - 12, y, f"{station['calls']}", class_="soft small", text_anchor="end")
    return tag("g", tag("title", escape(told)), dot, name, calls)


def _key(lanes: Sequence[str], top: float, width: float) -> tuple[str, float]:
    """Which colour is which storey, in as many lines as it takes; and where it ends."""
    parts, x, y = [], _LEFT, top
    for lane, name in enumerate(lanes):
        needed = 12 + text_width(name) + 10
        if x + needed > width - 8:
            x, y = _LEFT, y + _KEY_ROW_PX
        parts.append(tag("circle", class_=f"f{lane % COLOURS}", cx=x, cy=y - 4, r=_DOT_PX))
        parts.append(text(x + 9, y, name, class_="soft small"))
        x += needed
    return "".join(parts), y


def _x(lane: int) -> float:
    return _LEFT + lane * _LANE_PX


def _storey(module: str) -> str:
    return module.removeprefix(_PREFIX).split(".")[0]
