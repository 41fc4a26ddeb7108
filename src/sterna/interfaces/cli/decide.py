"""`sterna decide`: what would a policy do with this cluster now?"""

import json
from typing import Annotated

import typer

from sterna.interfaces.cli.options import IdleCpuShare, Rebalance, RebalanceSettings, Settings, TextOutput, policy_names

_EPILOG = """\b
Examples:
  sterna decide --snapshot cluster.json --policy afs-l
  sterna decide --snapshot cluster.yaml --policy dragon --set starve-after-s=60 -o json
  sterna decide --snapshot cluster.json --policy fifo --rebalance specon,drain --rebalance-set specon.round-s=60
  sterna decide --schema > snapshot.schema.json
\b
The same snapshot, policy and options always give the same answer, byte for byte: this is also how a decision
made in production is replayed.
"""


def decide(
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", "-s", metavar="FILE", help="The cluster as JSON or YAML; - for stdin."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", help="How jobs are sized.", autocompletion=policy_names)
    ] = None,
    set_: Settings = [],  # noqa: B006 - typer copies it
    placement: Annotated[
        str | None, typer.Option("--placement", help="Where workers go. Default: the policy's own.")
    ] = None,
    rebalance: Rebalance = None,
    rebalance_set: RebalanceSettings = [],  # noqa: B006 - typer copies it
    idle_cpu_share: IdleCpuShare = None,
    output: Annotated[TextOutput, typer.Option("--output", "-o", help="For people: text. For programs: json.")] = (
        TextOutput.TEXT
    ),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of snapshots, and stop.")] = False,
) -> None:
    """Ask what a policy would do with a cluster, and why.

    Says how many workers each job gets, where, and in which order things would happen; with --rebalance also what
    those rebalancers looked at and why they move it or not. Nothing is carried out.
    """
    if schema:
        _print_schema()
        return
    if snapshot is None or policy is None:
        missing = "--snapshot" if snapshot is None else "--policy"
        raise typer.BadParameter("is needed, unless --schema is given", param_hint=missing)
    _answer(
        snapshot,
        policy,
        set_,
        placement,
        output,
        rebalance=rebalance,
        rebalance_set=rebalance_set,
        idle_cpu_share=idle_cpu_share,
    )


def _answer(
    snapshot: str,
    policy: str,
    set_: list[str],
    placement: str | None,
    output: TextOutput,
    *,
    rebalance: str | None,
    rebalance_set: list[str],
    idle_cpu_share: float | None,
) -> None:
    from sterna.compose.simulation_requests import RebalanceRequest, RulesRequest
    from sterna.compose.snapshot_decision import decide_file
    from sterna.interfaces.cli.choices import rebalancer_names, settings
    from sterna.interfaces.cli.terminal import strong
    from sterna.interfaces.reports.decision import decision_text
    from sterna.wire.decision_file import decision_record

    moving = RebalanceRequest(
        names=tuple(rebalancer_names(rebalance)), settings=settings(rebalance_set, flag="--rebalance-set")
    )
    rules = RulesRequest(
        policy=policy,
        settings=settings(set_),
        placement=placement,
        idle_cpu_share=idle_cpu_share,
        rebalance=moving,
    )
    view, decision = decide_file(snapshot, rules)
    if output is TextOutput.JSON:
        typer.echo(json.dumps(decision_record(view, decision), indent=2))
    else:
        typer.echo(decision_text(view, decision, policy=policy, strong=strong))


def _print_schema() -> None:
    from sterna.wire.snapshot_file import snapshot_schema

    typer.echo(json.dumps(snapshot_schema(), indent=2))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(decide)
