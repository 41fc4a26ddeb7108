"""`sterna replay`: is what a journal says was decided what the core decides?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from sterna.interfaces.cli.engine_choice import Engine, chosen
from sterna.interfaces.cli.options import TextOutput
from sterna.interfaces.cli.terminal import EXIT_FAILED
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna simulate --generate poisson --policy afs-l --journal run.jsonl
  sterna replay run.jsonl
  sterna replay
  kubectl exec -n sterna-system LEADER -- sh -c 'cat /var/lib/sterna/journal/*' | kubectl sterna replay -
\b
The engine of this machine keeps its journal in the directory journal of its home, the operator where --journal says.
On a cluster LEADER is the pod that holds the Lease sterna: kubectl get lease sterna -n sterna-system.
Exit code 0: every decision came out the same, byte for byte. 1: one did not; the first twenty such places are named.
"""
_SHOWN_MAX = 20


def replay(
    journal: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Journals, or directories of them; - is standard input. Default: that of this machine's engine.",
        ),
    ] = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
) -> None:
    """Decide again everything that a journal says was decided, and compare.

    The journal names the policy, its options and the placement; every snapshot in it is decided anew. Nothing is
    carried out.
    """
    from sterna.compose.decision_journals import replay_file
    from sterna.interfaces.reports.replay_difference import Tally

    files, tally = _files(journal or [_own_journal()]), Tally()
    for file in files:
        for replayed in replay_file(file, passed_over=tally.pass_over):
            found = tally.count(replayed, file=file if len(files) > 1 else "")
            if found is not None and output is TextOutput.TEXT and tally.different <= _SHOWN_MAX:
                typer.echo(found.sentence)
    typer.echo(json.dumps(tally.to_record(), indent=2) if output is TextOutput.JSON else tally.sentence)
    if tally.different:
        raise typer.Exit(EXIT_FAILED)


def _own_journal() -> str:
    if chosen().engine is Engine.KUBERNETES:
        expected = (
            "a file, or - for standard input: `kubectl exec -n sterna-system LEADER -- "
            "sh -c 'cat /var/lib/sterna/journal/*' | kubectl sterna replay -` (LEADER: the pod that holds the Lease)"
        )
        raise InvalidRequest(field="journal", value=None, expected=expected)
    from sterna.interfaces.api.engine_home import state_home

    return str(state_home(None) / "journal")


def _files(paths: list[str]) -> list[str]:
    from sterna.journal.rotating_files import files_in

    found: list[str] = []
    for path in paths:
        inside = [str(each) for each in files_in(Path(path))] if Path(path).is_dir() else [path]
        if not inside:
            raise InvalidRequest(field="journal", value=path, expected="a directory with decisions-*.jsonl in it")
        found += inside
    return found


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(replay)
