"""What every slot of a machine did when: one row a GPU slot, one colour a job. A move is a colour that changes row.

Knows slots, stretches and marks; where they come from is the caller's business.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from sterna.interfaces.plots.chart_frame import AXIS_PX, TITLE_PX, Area, heading, x_axis
from sterna.interfaces.plots.scales import Linear, duration, time_ticks
from sterna.interfaces.plots.svg import COLOURS, document, tag, text, text_width

_ROW_PX = 22.0
_GROUP_GAP_PX = 8.0
_KEY_ROW_PX = 20.0


class Stretch(NamedTuple):
    """One worker in one slot."""

    row: int
    job: str
    from_s: float
    to_s: float
    label: str  # for a pointer that rests on it


class Mark(NamedTuple):
    """Something that happened to a whole group of rows for a while: it was drained."""

    group: str
    from_s: float
    to_s: float
    label: str


def timeline_plot(
    groups: Mapping[str, int], stretches: Sequence[Stretch], marks: Sequence[Mark] = (), *, title: str
) -> str:
    """`groups` names the nodes from top to bottom with their numbers of rows; rows are counted through all of them."""
    jobs = list(dict.fromkeys(stretch.job for stretch in sorted(stretches, key=lambda one: (one.from_s, one.job))))
    tops = _tops(groups, TITLE_PX + _KEY_ROW_PX + 6)
    left = 24 + max((text_width(name) for name in groups), default=0.0)
    bottom = max(tops.rows, default=TITLE_PX) + _ROW_PX
    width, height = 860.0, bottom + AXIS_PX
    area = Area(left=left, top=TITLE_PX + _KEY_ROW_PX, right=width - 24, bottom=bottom)
    end_s = max([*(one.to_s for one in stretches), *(one.to_s for one in marks)], default=1.0) or 1.0
    x = Linear(0, end_s, area.left, area.right)
    return document(
        heading(title),
        _key(jobs, area.left),
        x_axis(area, x, time_ticks(end_s), "time", duration),
        *(_group(name, tops.groups[name], rows, area) for name, rows in groups.items()),
        *(_mark(mark, tops.groups[mark.group], groups[mark.group], x) for mark in marks if mark.group in groups),
        *(_bar(stretch, tops.rows[stretch.row], jobs.index(stretch.job), x) for stretch in stretches),
        width=width,
        height=height,
        title=title,
        description=f"Which of {len(jobs)} jobs held each of {len(tops.rows)} slots over {duration(end_s)}.",
    )


class _Tops(NamedTuple):
    groups: dict[str, float]
    rows: list[float]


def _tops(groups: Mapping[str, int], top: float) -> _Tops:
    starts: dict[str, float] = {}
    rows: list[float] = []
    for name, count in groups.items():
        starts[name] = top
        rows.extend(top + position * _ROW_PX for position in range(count))
        top += count * _ROW_PX + _GROUP_GAP_PX
    return _Tops(starts, rows)


def _key(jobs: Sequence[str], left: float) -> str:
    parts, x = [], left
    for index, job in enumerate(jobs):
        parts.append(tag("rect", class_=f"f{index % COLOURS}", x=x, y=TITLE_PX, width=12, height=12, rx=2))
        parts.append(text(x + 17, TITLE_PX + 10, job, class_="soft small"))
        x += 17 + text_width(job) + 14
    return "".join(parts)


def _group(name: str, top: float, rows: int, area: Area) -> str:
    height = rows * _ROW_PX
    lines = [
        tag("line", class_="grid", x1=area.left, y1=top + n * _ROW_PX, x2=area.right, y2=top + n * _ROW_PX)
        for n in range(rows + 1)
    ]
    label = text(area.left - 8, top + height / 2 + 4, name, class_="small", text_anchor="end")
    return "".join((*lines, label))


def _mark(mark: Mark, top: float, rows: int, x: Linear) -> str:
    left, right = x(mark.from_s), x(mark.to_s)
    box = tag("rect", class_="soft", x=left, y=top, width=max(1.0, right - left), height=rows * _ROW_PX, opacity=0.14)
    middle = (left + right) / 2  # at its beginning the last workers may still be leaving
    words = text(middle, top + rows * _ROW_PX / 2 + 4, mark.label, class_="soft small", text_anchor="middle")
    return box + (words if right - left > text_width(mark.label) + 12 else "")


def _bar(stretch: Stretch, top: float, colour: int, x: Linear) -> str:
    left = x(stretch.from_s)
    return tag(
        "rect",
        tag("title", escape(stretch.label)),
        class_=f"f{colour % COLOURS}",
        x=left,
        y=top + 2,
        width=max(1.0, x(stretch.to_s) - left),
        height=_ROW_PX - 4,
        rx=2,
    )
