"""`sterna compare`: several policies on several traces, side by side."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.options import RunOptions, Settings, taking
from sterna.interfaces.cli.terminal import progress, strong, tell_problems, tell_unfinished, write_file

if TYPE_CHECKING:
    from sterna.interfaces.reports.run_finding import Finding

_EPILOG = """\b
Examples:
  sterna compare --policies fifo,afs-l,elastic-tiresias --traces poisson-120,bursty-200
  sterna compare --traces jobs.csv --report report.html --csv numbers.csv
  sterna compare --policies las:demote=jump,las:demote=exact --traces poisson-120 --placement count
\b
A policy takes options after a colon, key=value, separated by colons. Without --policies, all are compared.
"""
_COLUMNS = 100


class CompareOutput(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@taking(RunOptions)
def compare(
    run: RunOptions,
    traces: Annotated[
        list[str], typer.Option("--traces", "-t", metavar="FILES", help="Trace files, separated by commas or repeated.")
    ],
    policies: Annotated[
        list[str], typer.Option("--policies", "-p", metavar="NAMES", help="Policies, separated by commas.")
    ] = ["all"],  # noqa: B006 - typer copies it
    set_: Settings = [],  # noqa: B006
    jobs_parallel: Annotated[
        int | None, typer.Option("--jobs-parallel", "-j", min=1, help="Simulations at a time. Default: one a core.")
    ] = None,
    output: Annotated[
        CompareOutput, typer.Option("--output", "-o", help="What to print; table leaves out what does not fit.")
    ] = CompareOutput.TABLE,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Also write one self-contained HTML page with plots.")
    ] = None,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Also write the numbers as CSV.")] = None,
    figure: Annotated[
        str | None, typer.Option("--figure", metavar="FILE", help="Also write an SVG picture of the first trace.")
    ] = None,
) -> None:
    """Run several policies on several traces, side by side.

    Every policy runs on every trace, in parallel. With --report, one HTML page holds the numbers and the plots:
    completion times, utilisation, who ran when.
    """
    from sterna.interfaces.cli.choices import policy_choices, settings, split_list
    from sterna.interfaces.cli.pairs import Pair, run_pairs
    from sterna.interfaces.cli.request_from_options import described
    from sterna.interfaces.plots.bars import comparison_figure
    from sterna.interfaces.reports.page import report_page
    from sterna.interfaces.reports.simulation_tables import summaries_csv

    choices = policy_choices(policies, settings(set_))
    files = split_list(traces)
    if not files:
        raise typer.BadParameter("at least one trace is needed", param_hint="--traces")
    pairs = [Pair(choice, trace, run) for trace in files for choice in choices]
    with progress("simulations done") as on_progress:
        findings = run_pairs(pairs, at_a_time=jobs_parallel or os.cpu_count() or 1, on_progress=on_progress)
    for found in findings[:: len(choices)]:  # rows are read alike for every policy: once a trace is enough
        tell_problems(found.problems)
    for found in findings:
        tell_unfinished(f"{found.summary.policy} on {found.summary.trace}", found.unfinished)
    typer.echo(_shown(findings, output))
    if csv:
        write_file(csv, summaries_csv(found.summary for found in findings))
    if figure:
        first = [found.result for found in findings[: len(choices)]]
        write_file(figure, comparison_figure(first, title=_figure_title(first[0].trace, run)))
    if report:
        command = shlex.join(["sterna", *sys.argv[1:]])
        write_file(report, report_page(findings, setting=described(run), command=command))


def _shown(findings: "Sequence[Finding]", output: CompareOutput) -> str:
    from sterna.interfaces.reports.simulation_tables import markdown_table, summaries_csv, summaries_json, summary_table

    summaries = [found.summary for found in findings]
    match output:
        case CompareOutput.TABLE:
            return summary_table(summaries, width=_columns(), strong=strong)
        case CompareOutput.WIDE:
            return summary_table(summaries, strong=strong)
        case CompareOutput.JSON:
            return summaries_json(summaries)
        case CompareOutput.CSV:
            return summaries_csv(summaries).rstrip("\n")
        case CompareOutput.MARKDOWN:
            return markdown_table(summaries)


def _columns() -> int:
    """Of the terminal; a hundred where there is none."""
    return shutil.get_terminal_size((_COLUMNS, 0)).columns if sys.stdout.isatty() else _COLUMNS


def _figure_title(trace: str, run: RunOptions) -> str:
    return f"{trace}, {run.cluster or f'{run.nodes} nodes x {run.gpus_per_node} GPUs'}"


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(compare)
