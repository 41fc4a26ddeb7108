"""`sterna migrate`: move a job, or one of its workers, to another node."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import (
    Home,
    JobArgument,
    Namespace,
    Quiet,
    Record,
    client_of,
    complete_nodes,
    job_id_of,
    say,
)
from sterna.interfaces.cli.options import seconds
from sterna.model.errors import Conflict

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

_EPILOG = """\b
Examples:
  sterna migrate mnist --to node-2
  sterna migrate mnist --worker 0 --to node-2 --wait
\b
The replacement is started and imported on the target before the old worker stops: the job pauses for a save and a
load. On a cluster a Migration object is made, and the operator does the rest.
`sterna get migrations` shows what each move took.
"""
_ENDED = ("Succeeded", "Failed", "Refused")
_LOOK_AGAIN_S = 2.0


def migrate(
    job: JobArgument,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NODE", help="Where to.", autocompletion=complete_nodes)
    ] = None,
    worker: Annotated[
        int | None, typer.Option("--worker", min=0, help="Only the worker of this number. Default: the whole job.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done; fail if it is not.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="TIME", parser=seconds, help="How long to wait at most.")
    ] = 300.0,
    namespace: Namespace = "default",
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Move a job to another node while it trains.

    The whole job, or one of its workers.
    """
    client = client_of(home)
    job_id = job_id_of(job, namespace)
    move = client.migrate(job_id, worker=worker, to=to)
    say(f"migration {move['id']} of {job_id} to {move.get('to') or to}: {move['phase']}", quiet=quiet)
    if wait:
        move = _ended(client, job_id, move, timeout)
        if move["phase"] != "Succeeded":
            raise Conflict(
                f"migration {move['id']} {move['phase'].lower()}: {move.get('message') or move.get('reason')}"
            )
        say(_success(move), quiet=quiet)
    elif move["phase"] in ("Failed", "Refused"):
        raise Conflict(f"migration {move['id']} was refused: {_why(move)}")


def _ended(client: "Client", job_id: str, move: Record, timeout_s: float) -> Record:
    deadline_s = time.monotonic() + timeout_s
    counter = 0
    while move["phase"] not in _ENDED:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"migration {move['id']} is {move['phase']} after {timeout_s:g} s")
        counter = client.changed(after=counter, timeout_s=min(left_s, _LOOK_AGAIN_S))
        move = next((one for one in client.migrations(job_id) if one["id"] == move["id"]), move)
        time.sleep(0.05)  # a move makes several events: no need to look at each
    return move


def _success(move: Record) -> str:
    from sterna.interfaces.reports.spans import short_span

    words = f"migration {move['id']} succeeded: {move.get('from')} to {move.get('to')}"
    paused_s = move.get("downtimeSeconds")
    return words if paused_s is None else f"{words}, paused {short_span(paused_s)}"


def _why(move: Record) -> str:
    return str(move.get("message") or move.get("reason"))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(migrate)
