"""The frame of HTML pages that need nothing but themselves: style, pairs of facts, tables that sort by a click.

No script, font or style is fetched, and a page says so in its content policy: it can be mailed, archived or put on an
intranet as it is. Without scripts its tables are simply not sortable.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Cell(NamedTuple):
    text: str
    value: object  # what the table is sorted by
    is_best: bool = False


def html_page(title: str, body: str) -> str:
    """`body` is HTML."""
    return _PAGE.format(title=escape(title), style=_STYLE, script=_SCRIPT, body=body)


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs) + "</dl>"


def sortable_table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]]) -> str:
    """Heads are words and what is said when they are pointed at."""
    head = "".join(f'<th title="{escape(says)}">{escape(words)}</th>' for words, says in heads)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(cell: Cell) -> str:
    mark = ' class="best"' if cell.is_best else ""
    return f'<td{mark} data-value="{escape(str(cell.value))}">{escape(cell.text)}</td>'


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
.wide>svg{min-width:720px}
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
<h1>{title}</h1>{body}
<script>{script}</script></body></html>
"""
