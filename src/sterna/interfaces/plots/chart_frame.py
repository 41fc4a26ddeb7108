"""What surrounds the data of a chart: title, axes with ticks, a legend. Knows nothing of jobs or policies."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sterna.interfaces.plots.scales import Scale
from sterna.interfaces.plots.svg import series, tag, text, text_width

LEGEND_ROW_PX = 18
TITLE_PX = 34  # room above the plotting area
MARGIN_PX = 18  # every chart leaves at least this to the right of its plotting area
AXIS_PX = 44  # room below it: tick labels and the axis' name


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """The rectangle that data are drawn in, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def heading(title: str, *, left: float = 12) -> str:
    return text(left, 21, title, class_="head")


def x_axis(area: Area, scale: Scale, ticks: Iterable[float], name: str, label: Callable[[float], str]) -> str:
    """Grid lines, tick labels and the axis' name. A label that would touch the one before it is left out."""
    parts = [tag("line", class_="axis", x1=area.left, y1=area.bottom, x2=area.right, y2=area.bottom)]
    free_from = float("-inf")
    for tick in ticks:
        x, words = scale(tick), label(tick)
        parts.append(tag("line", class_="grid", x1=x, y1=area.top, x2=x, y2=area.bottom))
        width = text_width(words)
        begins = min(x - width / 2, area.right + MARGIN_PX - width)  # the last one moves in rather than being cut off
        if begins >= free_from:
            parts.append(text(begins + width / 2, area.bottom + 16, words, class_="soft small", text_anchor="middle"))
            free_from = begins + width + 6
    middle = (area.left + area.right) / 2
    parts.append(text(middle, area.bottom + 36, name, class_="soft", text_anchor="middle"))
    return "".join(parts)


def y_axis(area: Area, scale: Scale, ticks: Iterable[float], name: str, label: Callable[[float], str]) -> str:
    parts = []
    for tick in ticks:
        y = scale(tick)
        parts.append(tag("line", class_="grid", x1=area.left, y1=y, x2=area.right, y2=y))
        parts.append(text(area.left - 7, y + 4, label(tick), class_="soft small", text_anchor="end"))
    middle = (area.top + area.bottom) / 2
    turned = f"rotate(-90 16 {middle:.0f})"
    parts.append(text(16, middle, name, class_="soft", text_anchor="middle", transform=turned))
    return "".join(parts)


def legend_width(names: Sequence[str]) -> float:
    return 40 + max((text_width(name) for name in names), default=0.0)


def legend(names: Sequence[str], *, left: float, top: float) -> str:
    """One line and one name per series, below each other."""
    parts = []
    for index, name in enumerate(names):
        y = top + index * LEGEND_ROW_PX
        parts.append(tag("line", x1=left, y1=y, x2=left + 22, y2=y, **series(index)))
        parts.append(text(left + 29, y + 4, name))
    return "".join(parts)


def labels(results: Sequence[tuple[str, str]]) -> list[str]:
    """How series are called: by policy, and by trace too where there is more than one."""
    traces = {trace for _, trace in results}
    return [policy if len(traces) <= 1 else f"{policy} · {trace}" for policy, trace in results]
