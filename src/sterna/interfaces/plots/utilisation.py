"""How much of the cluster was in use over time: one strip a policy, all on the same time axis.

Strips rather than one plot with many lines: utilisation jumps at every event, and ten such lines are a tangle.
"""

from collections.abc import Sequence

import numpy as np

from sterna.engines.simulator.results import Sample, SimulationResult
from sterna.interfaces.plots.chart_frame import AXIS_PX, TITLE_PX, Area, heading, labels, x_axis
from sterna.interfaces.plots.scales import Linear, duration, time_ticks
from sterna.interfaces.plots.svg import COLOURS, document, polyline, tag, text, text_width

_BINS = 240
_STRIP_PX = 46.0
_GAP_PX = 10.0


def utilisation_plot(
    results: Sequence[SimulationResult], *, title: str = "GPUs in use over time", width: float = 860
) -> str:
    names = labels([(result.policy, result.trace) for result in results])
    end_s = max([result.makespan_s for result in results if result.makespan_s > 0], default=1.0)
    height = TITLE_PX + AXIS_PX + max(1, len(results)) * (_STRIP_PX + _GAP_PX)
    left = 24 + max((text_width(name) for name in names), default=0.0)
    area = Area(left=left, top=TITLE_PX, right=width - 70, bottom=height - AXIS_PX)
    x = Linear(0, end_s, area.left, area.right)
    strips = [
        _strip(result, name, index, area, x) for index, (result, name) in enumerate(zip(results, names, strict=True))
    ]
    means = [f"{name} {result.utilisation():.0%}" for result, name in zip(results, names, strict=True)]
    return document(
        heading(title),
        x_axis(area, x, time_ticks(end_s), "time since the first submission", duration),
        *strips,
        width=width,
        height=height,
        title=title,
        description="Share of GPUs in use over time; on average " + ", ".join(means) + ".",
    )


def busy_share(result: SimulationResult, end_s: float, *, bins: int = _BINS) -> list[float]:
    """Mean share of GPUs in use in each of `bins` equal stretches of time up to `end_s`."""
    means = resampled(result.samples, end_s, bins=bins)
    return [mean.gpus_used / mean.gpus_capacity if mean.gpus_capacity else 0.0 for mean in means]


def resampled(samples: Sequence[Sample], end_s: float, *, bins: int) -> list[Sample]:
    """The means of `bins` equal stretches of time: areas, and so utilisation, stay what they were."""
    if not samples or end_s <= 0:
        return [Sample(0.0, 0.0, 0.0, 0, 0)] * bins
    at_s = np.array([sample.at_s for sample in samples])
    edges = np.linspace(0.0, end_s, bins + 1)
    used = np.diff(_area_at(edges, at_s, [sample.gpus_used for sample in samples])) * (bins / end_s)
    there = np.diff(_area_at(edges, at_s, [sample.gpus_capacity for sample in samples])) * (bins / end_s)
    begun = np.maximum(0, np.searchsorted(at_s, edges[:-1], side="right") - 1)
    return [
        Sample(float(edge), float(held), float(capacity), samples[step].running, samples[step].waiting)
        for edge, held, capacity, step in zip(edges[:-1], used, there, begun, strict=True)
    ]


def _area_at(edges: np.ndarray, at_s: np.ndarray, heights: Sequence[float]) -> np.ndarray:
    """The integral of a step function from its first step to each edge: exact, however many samples a bin holds."""
    height = np.array(heights)
    whole = np.concatenate(([0.0], np.cumsum(height[:-1] * np.diff(at_s))))
    step = np.clip(np.searchsorted(at_s, edges, side="right") - 1, 0, len(at_s) - 1)
    areas: np.ndarray = whole[step] + height[step] * np.maximum(0.0, edges - at_s[step])
    return areas


def _strip(result: SimulationResult, name: str, index: int, area: Area, x: Linear) -> str:
    top = area.top + index * (_STRIP_PX + _GAP_PX) + _GAP_PX
    y = Linear(0, 1, top + _STRIP_PX, top)
    shares = busy_share(result, x.high)
    width_s = x.high / len(shares)
    outline: list[tuple[float, float]] = []
    for position, share in enumerate(shares):
        outline += [(x(position * width_s), y(share)), (x((position + 1) * width_s), y(share))]
    closed = [(x(0), y(0)), *outline, (x(x.high), y(0))]
    colour = index % COLOURS
    return tag(
        "g",
        tag("line", class_="grid", x1=area.left, y1=y(1), x2=area.right, y2=y(1)),
        tag("line", class_="axis", x1=area.left, y1=y(0), x2=area.right, y2=y(0)),
        tag("polygon", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in closed), class_=f"f{colour}", opacity=0.3),
        polyline(outline, class_=f"line s{colour}", stroke_width=1),
        text(area.left - 10, y(0.5) + 4, name, text_anchor="end"),
        text(area.right + 8, y(0.5) + 4, f"{result.utilisation():.1%}", class_="soft small"),
    )
