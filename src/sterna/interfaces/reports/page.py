"""One HTML page about several runs: numbers, distributions, utilisation, which job ran when; it needs no other file."""

from collections.abc import Sequence
from html import escape

from sterna import __version__
from sterna.engines.simulator.results import Summary
from sterna.interfaces.plots.bars import bar_comparison
from sterna.interfaces.plots.cdf import cdf_plot
from sterna.interfaces.plots.gantt import gantt_plot
from sterna.interfaces.plots.html_page import Cell, facts, html_page, sortable_table
from sterna.interfaces.plots.scales import duration
from sterna.interfaces.plots.utilisation import utilisation_plot
from sterna.interfaces.reports.run_finding import Finding
from sterna.interfaces.reports.simulation_tables import best_of
from sterna.interfaces.reports.summary_columns import COLUMNS, Column

PROBLEMS_MAX = 50  # of one trace; more would say nothing new


def report_page(findings: Sequence[Finding], *, setting: Sequence[tuple[str, str]], command: str = "") -> str:
    """`setting` is what all runs had in common, as pairs of words; `command` is what would make this page again."""
    traces = list(dict.fromkeys(finding.summary.trace for finding in findings))
    policies = list(dict.fromkeys(finding.summary.policy for finding in findings))
    title = f"{len(policies)} policies on {traces[0] if len(traces) == 1 else f'{len(traces)} traces'}"
    sections = [_trace_section(trace, [one for one in findings if one.summary.trace == trace]) for trace in traces]
    links = " · ".join(f'<a href="#{_anchor(trace)}">{escape(trace)}</a>' for trace in traces)
    parts = [
        facts([*setting, ("sterna", __version__)]),
        f"<pre>{escape(command)}</pre>" if command else "",
        f"<nav>{links}</nav>",
        *sections,
        f"<section><h2>Options used</h2>{_options(findings)}</section>",
    ]
    return html_page(title, "\n".join(parts))


def _trace_section(trace: str, findings: Sequence[Finding]) -> str:
    results = [finding.result for finding in findings]
    averages = [(finding.summary.policy, finding.summary.jct_avg_s) for finding in findings]
    charts = [gantt_plot(result) for result in results]
    gantts = "".join(
        f"<details{' open' if not number else ''}><summary>{escape(result.policy)}</summary>{chart}</details>"
        for number, (result, chart) in enumerate(zip(results, charts, strict=True))
    )
    return (
        f'<section id="{_anchor(trace)}"><h2>{escape(trace)}</h2>{_facts(findings)}{_table(findings)}'
        f"{bar_comparison(averages, title='Average completion time', unit='s')}"
        f"{cdf_plot(results)}{utilisation_plot(results)}<h3>Who ran when</h3>{gantts}{_problems(findings)}</section>"
    )


def _facts(findings: Sequence[Finding]) -> str:
    """What the trace is like, so that its numbers can be read without opening it."""
    records = findings[0].result.records
    submitted = [record.submitted_s for record in records]
    span_s = max(submitted, default=0.0) - min(submitted, default=0.0)
    known = [("jobs", f"{len(records):,}"), ("submitted within", duration(span_s))]
    if problems := len(findings[0].problems):
        known.append(("rows left out", f"{problems:,}"))
    return facts(known)


def _table(findings: Sequence[Finding]) -> str:
    shown = [column for column in COLUMNS if column.name not in ("trace", "jobs")]
    summaries = [finding.summary for finding in findings]
    best = {column.name: best_of(column, summaries) for column in shown}
    heads = [(_head(column), column.says) for column in shown]
    return sortable_table(heads, [[_cell(column, run, best[column.name]) for column in shown] for run in summaries])


def _head(column: Column) -> str:
    return f"{column.head} s" if column.is_time else column.head


def _cell(column: Column, summary: Summary, best: object) -> Cell:
    value = column.of(summary)
    return Cell(column.shown(summary), value, best is not None and value == best)


def _options(findings: Sequence[Finding]) -> str:
    rows = {
        finding.summary.policy: ", ".join(f"{name}={value}" for name, value in finding.options) or "none"
        for finding in findings
    }
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(words)}</td></tr>" for name, words in rows.items())
    return f"<table><thead><tr><th>policy</th><th>options</th></tr></thead><tbody>{cells}</tbody></table>"


def _problems(findings: Sequence[Finding]) -> str:
    problems = findings[0].problems  # rows are read alike for every policy
    if not problems:
        return ""
    lines = "".join(f"<li>{escape(problem)}</li>" for problem in problems[:PROBLEMS_MAX])
    more = f"<p>and {len(problems) - PROBLEMS_MAX:,} more</p>" if len(problems) > PROBLEMS_MAX else ""
    return f"<details><summary>Rows left out: {len(problems):,}</summary><ul>{lines}</ul>{more}</details>"


def _anchor(trace: str) -> str:
    return "trace-" + "".join(sign if sign.isalnum() else "-" for sign in trace)
