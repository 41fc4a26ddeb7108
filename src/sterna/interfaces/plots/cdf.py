"""Which part of the jobs had finished after how long: one curve a policy, on a logarithmic time axis."""

from collections.abc import Sequence

from sterna.engines.simulator.results import SimulationResult
from sterna.interfaces.plots.chart_frame import (
    AXIS_PX,
    LEGEND_ROW_PX,
    TITLE_PX,
    Area,
    heading,
    labels,
    legend,
    legend_width,
    x_axis,
    y_axis,
)
from sterna.interfaces.plots.scales import Linear, Log, duration, log_time_ticks
from sterna.interfaces.plots.svg import document, polyline, series

_POINTS_MAX = 400  # a curve of more points looks the same and weighs more


def cdf_plot(results: Sequence[SimulationResult], *, title: str = "Job completion time", width: float = 860) -> str:
    """Curves further left and higher are better; one that ends below 100 % left jobs unfinished."""
    names = labels([(result.policy, result.trace) for result in results])
    curves = [_curve(result) for result in results]
    seconds = [second for curve in curves for second, _ in curve]
    low_s, high_s = max(1.0, min(seconds, default=1.0)), max(10.0, *seconds, 10.0)
    if low_s >= high_s:
        low_s = high_s / 10
    height = max(340.0, TITLE_PX + AXIS_PX + LEGEND_ROW_PX * len(names))
    area = Area(left=64, top=TITLE_PX, right=width - legend_width(names) - 20, bottom=height - AXIS_PX)
    x, y = Log(low_s, high_s, area.left, area.right), Linear(0, 1, area.bottom, area.top)
    lines = [
        polyline([(x(low_s), y(0)), *_steps([(x(second), y(part)) for second, part in curve])], **series(index))
        for index, curve in enumerate(curves)
    ]
    return document(
        heading(title),
        x_axis(area, x, log_time_ticks(low_s, high_s), "completion time (log)", duration),
        y_axis(area, y, (0, 0.25, 0.5, 0.75, 1), "jobs finished", lambda part: f"{part:.0%}"),
        *lines,
        legend(names, left=area.right + 18, top=area.top + 8),
        width=width,
        height=height,
        title=title,
        description=_described(names, results),
    )


def _curve(result: SimulationResult) -> list[tuple[float, float]]:
    jcts = sorted(record.jct_s for record in result.records if record.jct_s is not None)
    total = len(result.records)  # unfinished jobs count: a policy must not look better by dropping some
    stride = max(1, len(jcts) // _POINTS_MAX)
    picked = [*range(0, len(jcts), stride), len(jcts) - 1] if jcts else []
    return [(jcts[position], (position + 1) / total) for position in dict.fromkeys(picked)]


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A staircase through the points: the height changes where a job ends, not before."""
    stairs: list[tuple[float, float]] = []
    for x, y in points:
        if stairs:
            stairs.append((x, stairs[-1][1]))
        stairs.append((x, y))
    return stairs


def _described(names: Sequence[str], results: Sequence[SimulationResult]) -> str:
    halves = [
        f"{name}: half within {duration(result.summary().jct_p50_s)}"
        for name, result in zip(names, results, strict=True)
    ]
    return "Share of jobs finished within a time. " + "; ".join(halves) + "."
