"""`sterna explain`: why a job waits, runs where it runs, shrank or moved."""

from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Form, Home, JobArgument, Namespace, client_of, job_id_of, printed, say
from sterna.interfaces.cli.options import TextOutput
from sterna.interfaces.cli.terminal import strong

_EPILOG = """\b
Examples:
  sterna explain mnist
  sterna explain mnist -o json
\b
The reasons are those of docs/reference/reasons.md.
"""


def explain(
    job: JobArgument,
    namespace: Namespace = "default",
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
    home: Home = None,
) -> None:
    """Say why a job waits, or runs as it does.

    Why it waits, runs where it runs, shrank or moved, in numbers; and what would change it.
    """
    answer = client_of(home).explain(job_id_of(job, namespace))
    if output is TextOutput.JSON:
        say(printed(answer, Form.JSON))
        return
    from datetime import UTC, datetime

    from sterna.interfaces.reports.explanation_text import explanation_text

    say(explanation_text(answer, now=datetime.now(UTC), strong=strong))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(explain)
