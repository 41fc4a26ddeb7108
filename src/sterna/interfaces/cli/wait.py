"""`sterna wait`: until jobs are as asked."""

import time
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Home, JobArguments, Namespace, Quiet, client_of, for_each, job_ids, say
from sterna.interfaces.cli.options import seconds

_EPILOG = """\b
Examples:
  sterna wait mnist
  sterna wait mnist cifar --for succeeded --timeout 30m
  sterna wait mnist --for condition=Suspended
\b
Exit codes: 0 all are as asked, 1 one can no longer be (it failed, say), 3 there is no such job, 4 time is up.
"""


def complete_states(incomplete: str) -> list[str]:
    from sterna.interfaces.client.waiting import STATES

    return [state for state in (*STATES, "condition=") if state.startswith(incomplete)]


def wait(
    jobs: JobArguments,
    until: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="STATE",
            help="succeeded, finished, running, suspended, deleted or condition=NAME.",
            autocompletion=complete_states,
        ),
    ] = "finished",
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="TIME", parser=seconds, help="For all of them. Default: without end."),
    ] = None,
    namespace: Namespace = "default",
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Wait until jobs have ended, or run, or ...

    An engine that is restarted meanwhile is waited for, too.
    """
    client = client_of(home)
    deadline_s = None if timeout is None else time.monotonic() + timeout

    def do(job_id: str) -> None:
        left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        job = client.wait(job_id, until=until, timeout_s=left_s)
        say(f"job {job_id} is {'deleted' if job is None else job['phase']}", quiet=quiet)

    for_each(job_ids(jobs, namespace), do)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(wait)
