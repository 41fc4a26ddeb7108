"""`sterna models`: how simulated jobs can train."""

from typing import Annotated

import typer

from sterna.interfaces.cli.policies import print_options
from sterna.interfaces.cli.terminal import strong

_EPILOG = """\b
Examples:
  sterna models
  sterna models pollux
"""


def models(name: Annotated[str | None, typer.Argument(help="Show this one with its options.")] = None) -> None:
    """List the performance models, or show one.

    One is shown with its options, their defaults and what they mean.
    """
    from sterna.engines.simulator.models.catalogue import ENTRIES, model_entry
    from sterna.interfaces.reports.policy_list import option_facts

    if name is not None:
        entry = model_entry(name)
        typer.echo(f"{strong(entry.name)}: {entry.summary}")
        typer.echo(f"  needs --profiles   {'yes' if entry.needs_profiles else 'no'}")
        typer.echo(f"  goes in rounds     {'yes' if entry.by_rounds else 'no'}")
        print_options(option_facts(entry.options), flag="--model-set")
        return
    width = max(len(entry.name) for entry in ENTRIES)
    for entry in ENTRIES:
        typer.echo(f"{strong(entry.name.ljust(width))}  {entry.summary}")


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(models)
