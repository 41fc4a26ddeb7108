"""`sterna drain` and `sterna uncordon`: take a node out of use, and back."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import Home, NodeArgument, Quiet, client_of, say
from sterna.interfaces.cli.options import seconds

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

_DRAIN_EPILOG = """\b
Examples:
  sterna drain node-2
  sterna drain node-2 --wait --timeout 2m
\b
Jobs there commit and go on elsewhere, or wait where there is no room. `sterna uncordon` takes the node back.
"""
_UNCORDON_EPILOG = """\b
Example:
  sterna uncordon node-2
"""
_LOOK_AGAIN_S = 2.0


def drain(
    node: NodeArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing runs there.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="TIME", parser=seconds, help="How long to wait at most.")
    ] = 300.0,
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Empty a node, and keep it empty.

    Its workers move away and no new ones come.
    """
    client = client_of(home)
    client.drain(node)
    say(f"node {node} is being emptied", quiet=quiet)
    if wait:
        _wait_until_empty(client, node, timeout)
        say(f"node {node} is empty", quiet=quiet)


def uncordon(node: NodeArgument, quiet: Quiet = False, home: Home = None) -> None:
    """Let work come to a node again."""
    client_of(home).uncordon(node)
    say(f"node {node} takes work again", quiet=quiet)


def _wait_until_empty(client: "Client", node: str, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    counter = 0
    while workers := _workers_on(client, node):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"node {node} still has {len(workers)} workers after {timeout_s:g} s: {workers[0]}, ...")
        counter = client.changed(after=counter, timeout_s=min(left_s, _LOOK_AGAIN_S))
        time.sleep(0.05)


def _workers_on(client: "Client", node: str) -> list[str]:
    return [worker for one in client.nodes() if one["name"] == node for worker in one["workers"]]


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_DRAIN_EPILOG)(drain)
    cli.command(epilog=_UNCORDON_EPILOG)(uncordon)
