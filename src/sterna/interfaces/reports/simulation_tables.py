"""Numbers as text that lines up, as CSV, as JSON and as Markdown. The columns are those of `summary_columns.py`."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sterna.engines.distribution import COLUMNS as DISTRIBUTION
from sterna.engines.distribution import rows_of, text_of
from sterna.engines.simulator.results import Considered, JobRecord, Summary
from sterna.interfaces.reports.grid import Emphasis, aligned, plainly
from sterna.interfaces.reports.summary_columns import COLUMNS, Column

_LEAST_TELLING = ("decision_p99_ms", "lost_gpu_s", "jct_p90_s", "jct_p50_s", "preemptions", "migrations", "resizes")


def summary_card(summary: Summary, *, strong: Emphasis = plainly) -> str:
    """One run, one number a line, with units."""
    width = max(len(column.says) for column in COLUMNS)
    return "\n".join(f"{strong(column.says.ljust(width))}  {column.explained(summary)}" for column in COLUMNS)


def summary_table(summaries: Sequence[Summary], *, width: int | None = None, strong: Emphasis = plainly) -> str:
    """Several runs, one a line, grouped by trace in the order given. Times are seconds.

    Columns that do not fit `width` are left out, the least telling first, and named below. None: all columns.
    """
    blocks = []
    for trace, runs in _by_trace(summaries).items():
        shown = [column for column in _narrow() if column.name not in ("trace", "jobs")]
        left_out = []
        table = _aligned(shown, runs, strong=plainly)
        for name in _LEAST_TELLING if width else ():
            if len(table.partition("\n")[0]) <= (width or 0):
                break
            left_out += [column for column in shown if column.name == name]
            shown = [column for column in shown if column.name != name]
            table = _aligned(shown, runs, strong=plainly)
        lines = [f"{trace}: {runs[0].jobs:,} jobs, times in seconds", _aligned(shown, runs, strong=strong)]
        if left_out:
            heads = ", ".join(column.head for column in _narrow() if column in left_out)
            lines.append(f"with -o wide: {heads}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def markdown_table(summaries: Sequence[Summary]) -> str:
    """For documents: the same columns, a table for each trace, the best of each column in bold."""
    blocks = _by_trace(summaries)
    if len(blocks) == 1:
        return _markdown(summaries)
    return "\n\n".join(f"**{trace}**, {runs[0].jobs:,} jobs\n\n{_markdown(runs)}" for trace, runs in blocks.items())


def _markdown(summaries: Sequence[Summary]) -> str:
    shown = [column for column in _narrow() if column.name not in ("trace", "jobs", "decision_p99_ms")]
    lines = [
        "| " + " | ".join(column.head for column in shown) + " |",
        "|" + "|".join("---" if column.name == "policy" else "---:" for column in shown) + "|",
    ]
    best = {column.name: best_of(column, summaries) for column in shown}
    for summary in summaries:
        cells = [
            f"**{column.shown(summary)}**" if column.of(summary) == best[column.name] else column.shown(summary)
            for column in shown
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def best_of(column: Column, summaries: Sequence[Summary]) -> Any:
    """The best value of a column; None where there is no better and worse, or all are the same."""
    values = {column.of(summary) for summary in summaries}
    if column.lower_is_better is None or len(values) < 2:
        return None
    return min(values) if column.lower_is_better else max(values)


def summaries_csv(summaries: Iterable[Summary]) -> str:
    """Every number unrounded, a line a run. Column names are the field names, units included."""
    return _csv([column.name for column in COLUMNS], ([column.of(one) for column in COLUMNS] for one in summaries))


def records_csv(records: Iterable[JobRecord]) -> str:
    """A line a job. Empty means: it did not start, or not finish."""
    head = [
        *("id", "category", "submitted_s", "first_started_s", "finished_s", "jct_s", "waited_s", "ran_s", "gpu_s"),
        *("lost_s", "resizes", "migrations", "preemptions", "refused"),
    ]
    return _csv(head, ([getattr(record, name) for name in head] for record in records))


def distribution_csv(considered: Iterable[Considered]) -> str:
    """What rebalancers looked at, in SpeCon's columns, on the simulation's clock."""
    rows = [row for at_s, move in considered for row in rows_of(at_s, [move])]
    return text_of([DISTRIBUTION, *rows])


def simulation_json(summary: Summary, records: Iterable[JobRecord], problems: Sequence[str]) -> str:
    """Summary, jobs with the stretches in which they held workers, and what was wrong with the trace."""
    jobs = [_record(record) for record in records]
    return json.dumps({"summary": asdict(summary), "problems": list(problems), "jobs": jobs}, indent=2)


def summaries_json(summaries: Iterable[Summary]) -> str:
    return json.dumps([asdict(summary) for summary in summaries], indent=2)


def _record(record: JobRecord) -> dict[str, Any]:
    values = asdict(record) | {"jct_s": record.jct_s, "waited_s": record.waited_s}
    return values | {
        "segments": [segment._asdict() for segment in record.segments],
        "first_workers": [{"role": w.role, "ordinal": w.ordinal, "node": w.node} for w in record.first_workers],
    }


def _csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if value is None else value for value in row] for row in rows)
    return sink.getvalue()


def _by_trace(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    traces: dict[str, list[Summary]] = {}
    for summary in summaries:
        traces.setdefault(summary.trace, []).append(summary)
    return traces


def _aligned(columns: Sequence[Column], runs: Sequence[Summary], *, strong: Emphasis) -> str:
    return aligned(
        [column.head for column in columns], [[c.shown(run) for c in columns] for run in runs], strong=strong
    )


def _narrow() -> list[Column]:
    return [column for column in COLUMNS if column.narrow]
