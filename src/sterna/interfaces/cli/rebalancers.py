"""`sterna rebalancers`: which there are, and what can be set."""

from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.options import TextOutput
from sterna.interfaces.cli.policies import print_options
from sterna.interfaces.cli.terminal import strong

if TYPE_CHECKING:
    from sterna.placement.rebalancers.registry import RebalancerEntry

_EPILOG = """\b
Examples:
  sterna rebalancers
  sterna rebalancers specon
  sterna rebalancers -o json
"""


def _names(incomplete: str) -> list[str]:
    """For shell completion."""
    from sterna.placement.rebalancers.registry import REBALANCERS

    return [entry.name for entry in REBALANCERS if entry.name.startswith(incomplete)]


def rebalancers(
    name: Annotated[str | None, typer.Argument(help="Show this one with its options.", autocompletion=_names)] = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
) -> None:
    """List the rebalancers, or show one.

    They move work beyond what a placement does, for as long as it pays. One is shown with its options, and with those
    that all of them share: the budget of moves and the cost model.
    """
    from sterna.placement.rebalancers.registry import REBALANCERS, rebalancer_entry

    entries = REBALANCERS if name is None else (rebalancer_entry(name),)
    if output is TextOutput.JSON:
        import json

        from sterna.interfaces.reports.rebalancer_list import rebalancer_facts

        typer.echo(json.dumps([rebalancer_facts(entry) for entry in entries], indent=2))
    elif name is None:
        width = max(len(entry.name) for entry in entries)
        for entry in entries:
            typer.echo(f"{strong(entry.name.ljust(width))}  {entry.summary}")
    else:
        _print_one(entries[0])


def _print_one(entry: "RebalancerEntry") -> None:
    from sterna.interfaces.reports.rebalancer_list import rebalancer_facts

    typer.echo(f"{strong(entry.name)}: {entry.summary}")
    print_options(rebalancer_facts(entry)["options"], flag="--rebalance-set")


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(rebalancers)
