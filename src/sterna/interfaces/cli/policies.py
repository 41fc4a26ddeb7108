"""`sterna policies`: which there are, and what can be set."""

from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.options import TextOutput, policy_names
from sterna.interfaces.cli.terminal import strong

if TYPE_CHECKING:
    from sterna.policies.registry import PolicyEntry

_EPILOG = """\b
Examples:
  sterna policies
  sterna policies afs-l
  sterna policies -o json
"""


def policies(
    name: Annotated[
        str | None, typer.Argument(help="Show this one with its options.", autocompletion=policy_names)
    ] = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
) -> None:
    """List the policies, or show one.

    One is shown with its options, their defaults and what they mean.
    """
    from sterna.policies.registry import ENTRIES, policy

    entries = ENTRIES if name is None else (policy(name).entry,)
    if output is TextOutput.JSON:
        import json

        from sterna.interfaces.reports.policy_list import policy_facts

        typer.echo(json.dumps([policy_facts(entry) for entry in entries], indent=2))
    elif name is None:
        _print_list(entries)
    else:
        _print_one(entries[0])


def _print_list(entries: "tuple[PolicyEntry, ...]") -> None:
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        typer.echo(f"{strong(entry.name.ljust(width))}  {entry.summary}")


def _print_one(entry: "PolicyEntry") -> None:
    from sterna.interfaces.reports.policy_list import policy_facts

    facts = policy_facts(entry)
    typer.echo(f"{strong(entry.name)}: {entry.summary}")
    typer.echo(f"  sizes         {'any between min and max' if entry.elastic else 'one fixed size or nothing'}")
    typer.echo(f"  needs speed   {'yes: curves and work left' if entry.needs_speed else 'no'}")
    typer.echo(f"  placement     {entry.placement}")
    if entry.aliases:
        typer.echo(f"  also called   {', '.join(entry.aliases)}")
    print_options(facts["options"], flag="--set")


def print_options(options: list[dict[str, str]], *, flag: str) -> None:
    typer.echo(f"\noptions, for {flag}" if options else "\nno options")
    for option in options:
        typer.echo(f"  {strong(option['name'] + '=' + option['default'])}  ({option['values']})\n      {option['doc']}")


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(policies)
