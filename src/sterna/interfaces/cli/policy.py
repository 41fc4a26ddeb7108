"""`sterna policy`: which policy the engine runs, and another from now on."""

from enum import StrEnum
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Form, Home, Quiet, Record, client_of, printed, say
from sterna.interfaces.cli.choices import settings
from sterna.interfaces.cli.options import Settings, TextOutput, policy_names, seconds
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna policy get
  sterna policy set afs-l
  sterna policy set las --set demote=jump --rate-limit 10s
\b
A change is checked at once, kept across restarts, and used from the next decision on, which it brings about.
`sterna policies` lists them all; `sterna simulate` tries one on a trace first.
"""


class Action(StrEnum):
    GET = "get"
    SET = "set"


def policy(
    action: Annotated[Action, typer.Argument(metavar="get|set", help="Show the policy, or change it.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The policy to set.", autocompletion=policy_names)
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    placement: Annotated[
        str | None, typer.Option("--placement", help="Where workers go from now on. Default: as the policy has it.")
    ] = None,
    rate_limit: Annotated[
        float | None,
        typer.Option("--rate-limit", metavar="TIME", parser=seconds, help="Least time between decisions from now on."),
    ] = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Show which policy sizes the jobs, or set another."""
    client = client_of(home)
    if action is Action.GET:
        if name is not None or set_ or placement is not None or rate_limit is not None:
            raise InvalidRequest(field="NAME", value=name, expected="nothing after get, or set")
        found = client.policy()
    else:
        if name is None:
            raise InvalidRequest(field="NAME", value=None, expected="the policy to set; `sterna policies` lists them")
        beside = {"placement": placement, "rateLimitSeconds": None if rate_limit is None else f"{rate_limit:g}"}
        given = {key: value for key, value in beside.items() if value is not None}
        found = client.set_policy(name, {**settings(set_), **given})
    say(printed(found, Form.JSON) if output is TextOutput.JSON else policy_text(found), quiet=quiet)


def policy_text(found: Record) -> str:
    values = ", ".join(f"{key}={value}" for key, value in sorted((found.get("settings") or {}).items()))
    lines = [f"policy      {found.get('policy')}", f"settings    {values or 'the defaults'}"]
    if found.get("placement"):
        lines.append(f"placement   {found['placement']}")
    if found.get("rateLimitSeconds") is not None:
        lines.append(f"rate limit  {found['rateLimitSeconds']:g} s between decisions")
    return "\n".join(lines)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(policy)
