"""`sterna replay`: is what a journal says was decided what the core decides?"""

import json
from typing import Annotated

import typer

from sterna.interfaces.cli.options import TextOutput
from sterna.interfaces.cli.terminal import EXIT_FAILED

_EPILOG = """\b
Examples:
  sterna simulate --generate poisson --policy afs-l --journal run.jsonl
  sterna replay run.jsonl
\b
Exit code 0: every decision came out the same, byte for byte. 1: one did not, and the first such place is named.
"""


def replay(
    journal: Annotated[
        str, typer.Argument(metavar="FILE", help="A journal, as `sterna simulate --journal` writes it.")
    ],
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
) -> None:
    """Decide again everything that a journal says was decided, and compare.

    The journal names the policy, its options and the placement; every snapshot in it is decided anew. Nothing is
    carried out.
    """
    from sterna.compose.decision_journals import replay_file
    from sterna.interfaces.reports.replay_difference import first_difference

    decisions, different = 0, None
    for replayed in replay_file(journal):
        decisions += 1
        if not replayed.same:
            different = first_difference(replayed)
            break
    if output is TextOutput.JSON:
        found = None if different is None else different._asdict()
        typer.echo(json.dumps({"decisions": decisions, "same": different is None, "difference": found}, indent=2))
    elif different is None:
        typer.echo(f"{decisions:,} decisions, all the same")
    else:
        typer.echo(different.sentence)
    if different is not None:
        raise typer.Exit(EXIT_FAILED)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(replay)
