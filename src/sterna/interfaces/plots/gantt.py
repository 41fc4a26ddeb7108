"""How many workers each job held when: one row a job, darker where it held more. Waiting is a thin line."""

from collections.abc import Sequence
from html import escape
from math import sqrt

from sterna.engines.simulator.results import JobRecord, Segment, SimulationResult
from sterna.interfaces.plots.chart_frame import AXIS_PX, TITLE_PX, Area, heading, x_axis
from sterna.interfaces.plots.scales import Linear, Scale, duration, time_ticks
from sterna.interfaces.plots.svg import document, tag, text, text_width

ROWS_MAX = 200
_LABELLED_PX = 11.0  # rows at least this high carry the job's name
_THINNEST_PX = 0.5  # bars narrower than this are joined with their neighbours: they could not be told apart


def gantt_plot(result: SimulationResult, *, title: str | None = None, width: float = 860) -> str:
    """Jobs from top to bottom by submission. Of more than 200, every n-th is shown, and the heading says so."""
    shown = picked(result.records)
    title = title or f"{result.policy} on {result.trace}"
    part = f" · {len(shown)} of {len(result.records)} jobs" if len(shown) < len(result.records) else ""
    row_px = min(14.0, max(3.0, 600.0 / max(1, len(shown))))
    labelled = row_px >= _LABELLED_PX
    height = TITLE_PX + 24 + AXIS_PX + row_px * max(1, len(shown))
    left = 20 + max((text_width(record.id) for record in shown), default=0.0) if labelled else 24.0
    area = Area(left=left, top=TITLE_PX + 24, right=width - 24, bottom=height - AXIS_PX)
    end_s = (
        max([result.makespan_s, *(segment.to_s for record in shown for segment in record.segments)], default=0) or 1.0
    )
    x = Linear(0, end_s, area.left, area.right)
    most = max((segment.workers for record in shown for segment in record.segments), default=1)
    rows = [
        _row(record, x, area.top + position * row_px, row_px, most, labelled=labelled, end_s=end_s)
        for position, record in enumerate(shown)
    ]
    return document(
        heading(title + part),
        _key(most, area.left),
        x_axis(area, x, time_ticks(end_s), "time since the first submission", duration),
        *rows,
        width=width,
        height=height,
        title=title + part,
        description=f"When each job held workers under {result.policy}; the most any job held was {most}.",
    )


def picked(records: Sequence[JobRecord], *, rows_max: int = ROWS_MAX) -> list[JobRecord]:
    """At most `rows_max` jobs, evenly spaced in the order of submission."""
    ordered = sorted(records, key=lambda record: (record.submitted_s, record.id))
    if len(ordered) <= rows_max:
        return ordered
    return [ordered[position * len(ordered) // rows_max] for position in range(rows_max)]


def _key(most: int, left: float) -> str:
    """How dark means how many."""
    sizes = sorted({1, *(max(1, round(most * part)) for part in (0.25, 0.5, 1.0))})
    parts, x = [], left
    for size in sizes:
        words = f"{size} worker" + ("s" if size > 1 else "")
        parts.append(tag("rect", class_="f0", x=x, y=TITLE_PX, width=16, height=11, opacity=_opacity(size, most)))
        parts.append(text(x + 22, TITLE_PX + 10, words, class_="soft small"))
        x += 22 + text_width(words) + 10
    parts.append(tag("line", class_="wait", x1=x, y1=TITLE_PX + 6, x2=x + 18, y2=TITLE_PX + 6))
    parts.append(text(x + 24, TITLE_PX + 10, "waiting", class_="soft small"))
    return "".join(parts)


def _row(record: JobRecord, x: Scale, top: float, row_px: float, most: int, *, labelled: bool, end_s: float) -> str:
    middle = top + row_px / 2
    until_s = record.finished_s if record.finished_s is not None else end_s
    bars = [
        tag(
            "rect",
            class_="f0",
            x=x(segment.from_s),
            y=top + row_px * 0.1,
            width=max(_THINNEST_PX, x(segment.to_s) - x(segment.from_s)),
            height=row_px * 0.8,
            opacity=_opacity(segment.workers, most),
        )
        for segment in _joined(record.segments, x)
    ]
    name = text(x(x.low) - 8, middle + 4, record.id, class_="small", text_anchor="end") if labelled else ""
    waiting = [
        tag("line", class_="wait", x1=x(from_s), y1=middle, x2=x(to_s), y2=middle)
        for from_s, to_s in _gaps(record, until_s)
        if x(to_s) - x(from_s) >= 1
    ]
    return tag("g", tag("title", escape(_told(record))), name, *waiting, *bars)


def _gaps(record: JobRecord, until_s: float) -> list[tuple[float, float]]:
    """When the job was there and held nothing."""
    begins = [record.submitted_s, *(segment.to_s for segment in record.segments)]
    ends = [*(segment.from_s for segment in record.segments), until_s]
    return [(from_s, to_s) for from_s, to_s in zip(begins, ends, strict=True) if to_s > from_s]


def _joined(segments: Sequence[Segment], x: Scale) -> list[Segment]:
    """Segments without holes too narrow to see; joined ones show their mean size, at least 1."""
    kept: list[Segment] = []
    for segment in segments:
        last = kept[-1] if kept else None
        if last is None or x(last.to_s) - x(last.from_s) >= _THINNEST_PX or x(segment.from_s) - x(last.to_s) > 1:
            kept.append(segment)
            continue
        held = last.workers * (last.to_s - last.from_s) + segment.workers * (segment.to_s - segment.from_s)
        mean = round(held / max(1e-9, segment.to_s - last.from_s))
        kept[-1] = Segment(last.from_s, segment.to_s, max(1, mean), last.nodes)
    return kept


def _opacity(workers: int, most: int) -> float:
    """By the square root: most jobs are small, and among those a worker more should be seen."""
    return round(0.25 + 0.75 * sqrt(workers / max(1, most)), 3)


def _told(record: JobRecord) -> str:
    if record.refused:
        return f"{record.id}: refused, {record.refused}"
    took = "not finished" if record.jct_s is None else f"finished after {duration(record.jct_s)}"
    moves = f"{record.resizes} resizes, {record.migrations} migrations, {record.preemptions} preemptions"
    return f"{record.id}: {took}; {moves}"
