"""Completion times of the same jobs in several arms: a dot a job and arm, in order of submission."""

from collections.abc import Sequence

from sterna.interfaces.plots.chart_frame import AXIS_PX, TITLE_PX, Area, heading, legend, legend_width, x_axis, y_axis
from sterna.interfaces.plots.scales import Linear, duration, nice_ticks, time_ticks
from sterna.interfaces.plots.svg import COLOURS, document, tag

_DOT_PX = 4.0


def changes_plot(arms: Sequence[tuple[str, Sequence[float]]], *, title: str, width: float = 860) -> str:
    """`arms` are names with the completion times of all jobs, the same jobs in the same order."""
    height = 360.0
    names = [name for name, _ in arms]
    jobs = max(len(times) for _, times in arms)
    most = max(max(times) for _, times in arms)
    area = Area(left=70, top=TITLE_PX, right=width - legend_width(names) - 20, bottom=height - AXIS_PX)
    y_ticks = time_ticks(most)
    x = Linear(0, jobs + 1, area.left, area.right)
    y = Linear(0, max(most, y_ticks[-1]), area.bottom, area.top)
    stems = [_stem([times[job] for _, times in arms], x(job + 1), y) for job in range(jobs)]
    dots = [
        tag("circle", class_=f"f{index % COLOURS}", cx=x(job + 1), cy=y(seconds), r=_DOT_PX)
        for index, (_, times) in enumerate(arms)
        for job, seconds in enumerate(times)
    ]
    means = ", ".join(f"{name} {duration(sum(times) / len(times))}" for name, times in arms)
    return document(
        heading(title),
        x_axis(area, x, [tick for tick in nice_ticks(jobs) if tick >= 1], "jobs in order of submission", _whole),
        y_axis(area, y, y_ticks, "completion time", duration),
        *stems,
        *dots,
        legend(names, left=area.right + 16, top=area.top + 10),
        width=width,
        height=height,
        title=title,
        description=f"{title}. On average: {means}.",
    )


def _stem(seconds: Sequence[float], x: float, y: Linear) -> str:
    return tag("line", class_="grid", x1=x, y1=y(min(seconds)), x2=x, y2=y(max(seconds)))


def _whole(value: float) -> str:
    return f"{value:.0f}"
