"""`sterna down`: stop the engine."""

import time
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Home, Quiet, client_of, say
from sterna.interfaces.cli.options import seconds
from sterna.model.errors import EngineUnavailable

_EPILOG = """\b
Examples:
  sterna down
  sterna down --leave-jobs
\b
Jobs commit and stop, and go on when `sterna up` is run again. With --leave-jobs they train on without an engine, at the
size they have, and the next `sterna up` finds them.
"""
_LOOK_EVERY_S = 0.1


def down(
    leave_jobs: Annotated[bool, typer.Option("--leave-jobs", help="Let training processes run on.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="TIME", parser=seconds, help="How long to wait for its end.")
    ] = 120.0,
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Stop the engine of this home. Where none runs, there is nothing to do."""
    client = client_of(home)
    try:
        endpoint = client.endpoint()
        client.shutdown(leave_jobs=leave_jobs)
    except EngineUnavailable as error:
        say(str(error).partition(":")[0], quiet=quiet)
        return
    deadline_s = time.monotonic() + timeout
    while _runs(endpoint.pid):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the engine (process {endpoint.pid}) has not ended after {timeout:g} s")
        time.sleep(_LOOK_EVERY_S)
    say("the engine has stopped" + ("; training goes on" if leave_jobs else ""), quiet=quiet)


def _runs(pid: int) -> bool:
    """Alive, and no zombie that waits for its parent."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
            return source.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(down)
