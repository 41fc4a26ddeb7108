"""One HTML page about several runs: numbers, distributions, utilisation, which job ran when. Needs nothing but itself.

No script, font or style is fetched, and the page says so in its content policy: it can be mailed, archived or put on
an intranet as it is. Tables sort by a click on a head; without scripts they are simply not sortable.
"""

from collections.abc import Sequence
from html import escape

from sterna import __version__
from sterna.interfaces.plots.bars import bar_comparison
from sterna.interfaces.plots.cdf import cdf_plot
from sterna.interfaces.plots.gantt import gantt_plot
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
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        script=_SCRIPT,
        setting=_pairs([*setting, ("sterna", __version__)]),
        command=f"<pre>{escape(command)}</pre>" if command else "",
        contents=" · ".join(f'<a href="#{_anchor(trace)}">{escape(trace)}</a>' for trace in traces),
        sections="\n".join(sections),
        options=_options(findings),
    )


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
    facts = [("jobs", f"{len(records):,}"), ("submitted within", duration(span_s))]
    if problems := len(findings[0].problems):
        facts.append(("rows left out", f"{problems:,}"))
    return _pairs(facts)


def _table(findings: Sequence[Finding]) -> str:
    shown = [column for column in COLUMNS if column.name not in ("trace", "jobs")]
    summaries = [finding.summary for finding in findings]
    best = {column.name: best_of(column, summaries) for column in shown}
    heads = "".join(f'<th title="{escape(column.says)}">{escape(_head(column))}</th>' for column in shown)
    rows = "".join(
        "<tr>" + "".join(_cell(column, finding, best[column.name]) for column in shown) + "</tr>"
        for finding in findings
    )
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _head(column: Column) -> str:
    return f"{column.head} s" if column.is_time else column.head


def _cell(column: Column, finding: Finding, best: object) -> str:
    value = column.of(finding.summary)
    mark = ' class="best"' if best is not None and value == best else ""
    return f'<td{mark} data-value="{escape(str(value))}">{escape(column.shown(finding.summary))}</td>'


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


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs) + "</dl>"


def _anchor(trace: str) -> str:
    return "trace-" + "".join(sign if sign.isalnum() else "-" for sign in trace)


_STYLE = """
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d8dee4;--paper:#fff;--best:#dafbe1}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#30363d;--paper:#0d1117;--best:#12361f}}
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;color:var(--ink);
background:var(--paper);max-width:1320px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0 0 .5rem}h2{margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line)}a{color:inherit}
dl{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin:.6rem 0}dl div{display:flex;gap:.5rem}dt{color:var(--soft)}
dd{margin:0}pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.6rem;
border:1px solid var(--line);border-radius:6px;font-size:13px}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:.8rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .4rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;vertical-align:bottom}.sortable th{cursor:pointer}td:first-child,th:first-child{text-align:left}
.best{background:var(--best)}svg{display:block;max-width:100%;height:auto;margin:1rem 0}summary{cursor:pointer}
"""

_SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th").forEach((head, column) => head.addEventListener("click", () => {
    const body = table.tBodies[0], down = head.dataset.down === "yes";
    const value = row => { const v = row.cells[column].dataset.value; return isNaN(v) ? v : Number(v); };
    const rows = [...body.rows].sort((a, b) => value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    if (down) rows.reverse();
    head.dataset.down = down ? "no" : "yes";
    body.append(...rows);
  }));
}
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head><body>
<h1>{title}</h1>{setting}{command}<nav>{contents}</nav>
{sections}
<section><h2>Options used</h2>{options}</section>
<script>{script}</script></body></html>
"""
