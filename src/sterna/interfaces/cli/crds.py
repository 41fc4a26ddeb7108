"""`sterna crds`: the custom resource definitions of our kinds, to be given to a cluster."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_EPILOG = """\b
Examples:
  sterna crds | kubectl apply -f -
  sterna crds --kind Migration -o json
  sterna crds --into deploy/crds
"""


class CrdOutput(StrEnum):
    YAML = "yaml"
    JSON = "json"


def complete_kinds(incomplete: str) -> list[str]:
    from sterna.wire.crds import definitions

    kinds = [str(one["spec"]["names"]["kind"]) for one in definitions()]
    return [kind for kind in kinds if kind.lower().startswith(incomplete.lower())]


def crds(
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Only this one; may be given again. Default: all.",
            show_default=False,
            autocompletion=complete_kinds,
        ),
    ] = None,
    output: Annotated[CrdOutput, typer.Option("--output", "-o", help="How they are written.")] = CrdOutput.YAML,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIRECTORY", help="Write a file for each there, instead of printing them."),
    ] = None,
) -> None:
    """Print the custom resource definitions.

    TFJob, PyTorchJob, MPIJob, ElasticJob and Migration: what a cluster must know before it takes any of them.
    """
    from sterna.wire.crds import definitions, file_name, json_of, yaml_of

    found = definitions(kind)
    written = yaml_of if output is CrdOutput.YAML else json_of
    if into is None:
        typer.echo(written(found), nl=False)
        return
    into.mkdir(parents=True, exist_ok=True)
    for one in found:
        (into / f"{file_name(one)}.{output}").write_text(written([one]), encoding="utf-8")


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(crds)
