"""`sterna logs`: what a job's processes print."""

import sys
from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Home, JobArgument, Namespace, client_of, job_id_of, until_interrupted
from sterna.interfaces.cli.engine_choice import program

_EPILOG = """\b
Examples:
  sterna logs mnist
  sterna logs -f mnist
  sterna logs mnist --worker 1 --tail 50
  sterna logs mnist --previous
\b
Without --worker, lines of all workers are printed, each with its worker before it. Following goes on across resizes,
migrations and restarts, and ends when the job does.
"""


def logs(
    job: JobArgument,
    worker: Annotated[
        str | None, typer.Option("--worker", metavar="NUMBER", help="Only of this worker: its number, or its name.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Only the last lines of each process. Default: all.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the processes before those that run now.")
    ] = False,
    every: Annotated[bool, typer.Option("--every", help="Of all processes the job ever had, oldest first.")] = False,
    prefix: Annotated[
        bool | None,
        typer.Option("--prefix/--no-prefix", help="The worker before each line. Default: where there are several."),
    ] = None,
    namespace: Namespace = "default",
    home: Home = None,
) -> None:
    """Print what the processes of a job write.

    Those that run now, or if none does, those that ran last.
    """
    client = client_of(home)
    job_id = job_id_of(job, namespace)
    if prefix is None:
        prefix = worker is None and _may_mix(client.job(job_id))
    chunks = client.logs(job_id, worker=worker, follow=follow, previous=previous, every=every, prefix=prefix, tail=tail)
    silent = True
    with until_interrupted():
        for chunk in chunks:
            silent = False
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    if silent and sys.stderr.isatty():
        typer.echo(f"{job_id} has printed nothing; `{program()} explain {job}` says what it does", err=True)


def _may_mix(job: dict[str, object]) -> bool:
    workers = job.get("workers")
    details = job.get("workerDetails")
    several = isinstance(workers, dict) and int(workers.get("max") or 1) > 1
    return several or (isinstance(details, list) and len(details) > 1)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(logs)
