"""`sterna traces`: which formats can be read, and what a file holds."""

from typing import Annotated

import typer

from sterna.interfaces.cli.terminal import strong, tell_problems
from sterna.wire.traces.shipped import shipped_traces, trace_path

_EPILOG = """\b
Examples:
  sterna traces
  sterna traces jobs.csv
  sterna traces poisson-120
"""


def traces(
    file: Annotated[str | None, typer.Argument(help="Say what this trace holds.")] = None,
    layout: Annotated[str | None, typer.Option("--format", help="Read it as this. Default: by its columns.")] = None,
) -> None:
    """List the trace formats, or look at a file.

    Of a file it says what it holds, and which of its rows cannot be used.
    """
    if file is None:
        _print_formats()
    else:
        _print_trace(file, layout)


def _print_formats() -> None:
    from sterna.wire.traces.formats import FORMATS

    width = max(len(entry.name) for entry in FORMATS)
    for entry in sorted(FORMATS, key=lambda entry: entry.name):
        typer.echo(f"{strong(entry.name.ljust(width))}  {entry.summary}")
        typer.echo(f"{' ' * width}  columns: {', '.join(entry.columns)}")
    typer.echo(f"\nshipped with the package: {', '.join(shipped_traces())}")


def _print_trace(file: str, layout: str | None) -> None:
    from sterna.interfaces.plots.scales import duration
    from sterna.wire.traces.trace_reading import read_trace

    trace = read_trace(trace_path(file), layout)
    submitted = [row.submitted_s for row in trace.rows]
    workers = sorted(row.workers for row in trace.rows)
    for name, words in (
        ("format", trace.format),
        ("jobs", f"{len(trace.rows):,}"),
        ("submitted within", duration(max(submitted) - min(submitted))),
        ("workers asked for", f"{workers[0]} to {workers[-1]}, median {workers[len(workers) // 2]}"),
        ("rows left out", f"{len(trace.problems):,}"),
    ):
        typer.echo(f"{strong(name.ljust(17))}  {words}")
    tell_problems(tuple(problem.sentence for problem in trace.problems))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(traces)
