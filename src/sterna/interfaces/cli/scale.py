"""`sterna scale`: other bounds for a job's size."""

from typing import Annotated

import typer

from sterna.interfaces.cli.asking import Home, JobArgument, Namespace, Quiet, client_of, job_id_of, say
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna scale mnist --max 8
  sterna scale mnist --min 2 --max 4
  sterna scale mnist --workers 3
\b
The policy sizes the job between its bounds; --workers sets both to the same.
"""


def scale(
    job: JobArgument,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Exactly this many.")] = None,
    minimum: Annotated[int | None, typer.Option("--min", min=1, help="At least this many.")] = None,
    maximum: Annotated[int | None, typer.Option("--max", min=1, help="At most this many.")] = None,
    namespace: Namespace = "default",
    quiet: Quiet = False,
    home: Home = None,
) -> None:
    """Change how small and how large a job may be."""
    if workers is None and minimum is None and maximum is None:
        raise InvalidRequest(field="--workers", value=None, expected="a number here, or for --min or --max")
    if workers is not None and (minimum is not None or maximum is not None):
        raise InvalidRequest(field="--workers", value=workers, expected="nothing beside --min and --max")
    job_id = job_id_of(job, namespace)
    record = client_of(home).scale(job_id, minimum=minimum, maximum=maximum, workers=workers)
    bounds = record.get("workers") or {}
    say(f"job {job_id} may have {bounds.get('min')} to {bounds.get('max')} workers", quiet=quiet)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(scale)
