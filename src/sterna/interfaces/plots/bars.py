"""One number a policy, as bars with their values: the picture for "which is shortest?"."""

from collections.abc import Callable, Sequence

from sterna.engines.simulator.results import SimulationResult
from sterna.interfaces.plots.cdf import cdf_plot
from sterna.interfaces.plots.chart_frame import AXIS_PX, TITLE_PX, Area, heading, x_axis
from sterna.interfaces.plots.scales import Linear, duration, nice_ticks, time_ticks
from sterna.interfaces.plots.svg import COLOURS, document, tag, text, text_width

_BAR_PX = 18.0
_GAP_PX = 8.0


def bar_comparison(
    bars: Sequence[tuple[str, float]],
    *,
    title: str,
    unit: str = "",
    label: Callable[[float], str] | None = None,
    width: float = 860,
) -> str:
    """Horizontal bars in the order given. With `unit="s"` the axis speaks in minutes, hours and days."""
    label = label or (duration if unit == "s" else lambda value: f"{value:,.4g}")
    most = max((0.0, *(value for _, value in bars))) or 1.0
    ticks = time_ticks(most) if unit == "s" else nice_ticks(most)
    left = 24 + max((text_width(name) for name, _ in bars), default=0.0)
    right = width - 20 - max((text_width(label(value)) for _, value in bars), default=0.0)
    height = TITLE_PX + AXIS_PX + _GAP_PX + max(1, len(bars)) * (_BAR_PX + _GAP_PX)
    area = Area(left=left, top=TITLE_PX, right=right, bottom=height - AXIS_PX)
    x = Linear(0, max(most, ticks[-1]), area.left, area.right)
    return document(
        heading(title),
        x_axis(area, x, ticks, "" if unit == "s" else unit, label),
        *(_bar(name, value, position, area, x, label) for position, (name, value) in enumerate(bars)),
        width=width,
        height=height,
        title=title,
        description=title + ": " + ", ".join(f"{name} {label(value)}" for name, value in bars) + ".",
    )


def comparison_figure(results: Sequence[SimulationResult], *, title: str) -> str:
    """Average completion times beside their distribution: the picture of a README."""
    averages = [(result.policy, result.summary().jct_avg_s) for result in results]
    left = bar_comparison(averages, title="Average completion time", unit="s", width=430)
    right = cdf_plot(results, title="Completion time of all jobs", width=620)
    height = max(_height(left), _height(right)) + 30
    return document(
        text(12, 22, title, class_="head"),
        left.replace("<svg ", '<svg y="30" ', 1),
        right.replace("<svg ", '<svg x="430" y="30" ', 1),
        width=1050,
        height=height,
        title=title,
        description="Average completion time: " + ", ".join(f"{name} {duration(value)}" for name, value in averages),
    )


def _bar(name: str, value: float, position: int, area: Area, x: Linear, label: Callable[[float], str]) -> str:
    top = area.top + _GAP_PX + position * (_BAR_PX + _GAP_PX)
    end = x(value)
    return "".join(
        (
            tag("rect", class_=f"f{position % COLOURS}", x=area.left, y=top, width=end - area.left, height=_BAR_PX),
            text(area.left - 8, top + _BAR_PX - 5, name, text_anchor="end"),
            text(end + 6, top + _BAR_PX - 5, label(value), class_="soft small halo"),
        )
    )


def _height(svg: str) -> float:
    """The height that `document` wrote into its view box."""
    return float(svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[3])
