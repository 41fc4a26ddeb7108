"""`sterna policy`: which policy the engine runs, and another from now on."""

from enum import StrEnum
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Form, Home, Quiet, Record, client_of, printed, say
from sterna.interfaces.cli.choices import settings
from sterna.interfaces.cli.options import (
    Rebalance,
    RebalanceSettings,
    Settings,
    TextOutput,
    policy_names,
    seconds,
)
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna policy get
  sterna policy set afs-l
  sterna policy set las --set demote=jump --rate-limit 10s
  sterna policy set --rebalance specon,imbalance --rebalance-set specon.round-s=60
  sterna policy set --rebalance none
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
    rebalance: Rebalance = None,
    rebalance_set: RebalanceSettings = [],  # noqa: B006 - typer copies it
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Show which policy sizes the jobs and which rebalancers move them, or set others.

    Without NAME the policy stays, and only rebalancers change.
    """
    client = client_of(home)
    moving = rebalance is not None or bool(rebalance_set)
    if action is Action.GET:
        if name is not None or set_ or placement is not None or rate_limit is not None or moving:
            raise InvalidRequest(field="NAME", value=name, expected="nothing after get, or set")
        found = client.policy()
    else:
        beside = {
            "placement": placement,
            "rateLimitSeconds": None if rate_limit is None else f"{rate_limit:g}",
            "rebalance": rebalance,
            "rebalanceSettings": "\n".join(rebalance_set) if moving else None,
        }
        given = {key: value for key, value in beside.items() if value is not None}
        if moving:
            settings(rebalance_set, flag="--rebalance-set")
        if name is None and moving and not set_:
            stays = client.policy()
            name = str(stays["policy"])
            kept = {"placement": stays.get("placement")} if placement is None else {}
            given = {**stays.get("settings", {}), **{key: text for key, text in kept.items() if text}, **given}
        if name is None:
            raise InvalidRequest(field="NAME", value=None, expected="the policy to set; `sterna policies` lists them")
        found = client.set_policy(name, {**settings(set_), **given})
    say(printed(found, Form.JSON) if output is TextOutput.JSON else policy_text(found), quiet=quiet)


def policy_text(found: Record) -> str:
    values = ", ".join(f"{key}={value}" for key, value in sorted((found.get("settings") or {}).items()))
    lines = [f"policy      {found.get('policy')}", f"settings    {values or 'the defaults'}"]
    if found.get("placement"):
        lines.append(f"placement   {found['placement']}")
    if found.get("rateLimitSeconds") is not None:
        lines.append(f"rate limit  {found['rateLimitSeconds']:g} s between decisions")
    if found.get("rebalance") is not None:
        values = ", ".join(f"{key}={value}" for key, value in sorted((found.get("rebalanceSettings") or {}).items()))
        names = ", ".join(found["rebalance"]) or "none: jobs are moved only where their size or a drain needs it"
        lines.append(f"rebalance   {names}{f' ({values})' if values else ''}")
    return "\n".join(lines)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(policy)
