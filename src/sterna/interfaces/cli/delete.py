"""`sterna delete`: stop jobs and forget them."""

import sys
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import (
    Home,
    Namespace,
    Quiet,
    client_of,
    complete_jobs,
    for_each,
    job_ids,
    say,
)
from sterna.interfaces.cli.engine_choice import Engine, chosen
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna delete mnist
  sterna delete mnist cifar --yes
  sterna delete --all -n experiments
\b
On a terminal it asks first, unless --yes is given. Checkpoints go with the job, except on a cluster, where they stay
on the job's volume; `sterna suspend` keeps everything.
"""


def delete(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB...", help="Jobs: NAME, or NAMESPACE/NAME.", autocompletion=complete_jobs),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All jobs of the namespace.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until their processes are gone and the names are free.")
    ] = True,
    namespace: Namespace = "default",
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Stop jobs and delete all they left.

    Logs go, too. One line for each that was deleted. One that is not there does not keep the others.
    """
    if bool(names) is every:
        raise InvalidRequest(field="JOB", value=names or None, expected="names of jobs, or --all")
    client = client_of(home)
    ids = [job["id"] for job in client.jobs(namespace=namespace)] if every else job_ids(names or [], namespace)
    if not ids:
        say(f"no jobs in namespace {namespace}", quiet=quiet)
        return
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        with_what = "with all checkpoints" if chosen().engine is Engine.LOCAL else "and all their pods"
        typer.confirm(f"Delete {', '.join(ids)} {with_what}?", abort=True)

    told: list[str] = []

    def tell(job_id: str) -> None:
        client.delete(job_id)
        told.append(job_id)

    try:
        for_each(ids, tell)
    finally:  # whatever became of the others, these are on their way out
        for job_id in told:
            if wait:
                client.wait(job_id, until="deleted")
            say(f"job {job_id} deleted", quiet=quiet)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(delete)
