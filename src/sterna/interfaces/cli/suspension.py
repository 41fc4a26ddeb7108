"""`sterna suspend` and `sterna resume`: give a job's room back for a while, without losing a step."""

import typer

from sterna.interfaces.cli.asking import Home, JobArguments, Namespace, Quiet, client_of, for_each, job_ids, say

_SUSPEND_EPILOG = """\b
Examples:
  sterna suspend mnist
  sterna suspend mnist && sterna wait mnist --for suspended
\b
The job commits a checkpoint, acknowledges its step and stops. `sterna resume` lets it go on from there.
"""
_RESUME_EPILOG = """\b
Example:
  sterna resume mnist
"""


def suspend(jobs: JobArguments, namespace: Namespace = "default", quiet: Quiet = False, home: Home = None) -> None:
    """Stop jobs at a committed step for a while.

    Their room goes to others.
    """
    client = client_of(home)

    def do(job_id: str) -> None:
        client.suspend(job_id)
        say(f"job {job_id} will be suspended at its next step", quiet=quiet)

    for_each(job_ids(jobs, namespace), do)


def resume(jobs: JobArguments, namespace: Namespace = "default", quiet: Quiet = False, home: Home = None) -> None:
    """Let suspended jobs go on.

    They wait for room and continue from the step at which they stopped.
    """
    client = client_of(home)

    def do(job_id: str) -> None:
        client.resume(job_id)
        say(f"job {job_id} resumed", quiet=quiet)

    for_each(job_ids(jobs, namespace), do)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_SUSPEND_EPILOG)(suspend)
    cli.command(epilog=_RESUME_EPILOG)(resume)
