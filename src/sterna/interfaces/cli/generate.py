"""`sterna generate`: make up a trace and write it down."""

from typing import Annotated

import typer

from sterna.interfaces.cli.terminal import write_file

_EPILOG = """\b
Examples:
  sterna generate --pattern diurnal --jobs 500 --seed 7 --file week.csv
  sterna generate --jobs 20
\b
The same pattern, number and seed always give the same file. The pattern specon makes jobs like those of SpeCon's
experiment, which request nothing and compete for CPU: for `sterna simulate --contention cpu`.
"""


def generate(
    pattern: Annotated[
        str, typer.Option("--pattern", help="How jobs arrive: poisson, bursty or diurnal; or specon.")
    ] = ("poisson"),
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many jobs.")] = 120,
    seed: Annotated[int, typer.Option("--seed", help="For everything that is drawn by lot.")] = 0,
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="Where to; - for standard output.")] = "-",
) -> None:
    """Make up a trace of elastic jobs.

    It is written as CSV, in Sterna's own format.
    """
    from sterna.compose.simulated_jobs import generated_trace

    content = generated_trace(pattern, jobs=jobs, seed=seed)
    if file == "-":
        typer.echo(content, nl=False)
    else:
        write_file(file, content)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(generate)
