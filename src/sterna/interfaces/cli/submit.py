"""`sterna submit` and `sterna create`: give jobs to the engine."""

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import Form, Home, OutputForm, Quiet, Record, client_of, for_each, printed, say
from sterna.interfaces.cli.engine_choice import chosen, program
from sterna.interfaces.cli.options import seconds, taking
from sterna.interfaces.reports.grid import one_line
from sterna.model.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

_EPILOG = """\b
Examples:
  sterna submit -f job.yaml
  sterna submit -f a.yaml -f b.yaml --wait
  sterna submit -f job.yaml --dry-run -o yaml
  sed s/NAME/run-7/ template.yaml | sterna submit -f -
\b
A file may hold several documents: TFJob, PyTorchJob, MPIJob or ElasticJob, as for Kubernetes. All of them are taken
or none. On this machine programs run as processes in the current directory, and images are not used; on a cluster the
API server gets the documents as they are, and --dry-run asks it, too.
"""
_FILE_BYTES_MAX = 1 << 20

Files = Annotated[
    list[str], typer.Option("--filename", "-f", metavar="FILE", help="A manifest; - for stdin. May be given again.")
]


@dataclass(frozen=True, kw_only=True)
class SubmitOptions:
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, create nothing.")] = False
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the jobs have ended; fail if one fails.")] = False
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="TIME", parser=seconds, help="How long to wait. Default: without end."),
    ] = None
    output: OutputForm = Form.TABLE
    quiet: Quiet = False
    home: Home = None


@taking(SubmitOptions)
def submit(filename: Files, run: SubmitOptions) -> None:
    """Submit the jobs of a manifest.

    Prints the name of each job and how to follow it.
    """
    _submit(filename, run)


@taking(SubmitOptions)
def create(filename: Files, run: SubmitOptions) -> None:
    """Submit jobs, by the name that Voda has for it.

    The same as `sterna submit`.
    """
    _submit(filename, run)


def _submit(files: list[str], run: SubmitOptions) -> None:
    client = client_of(run.home)
    texts = {path: _read(path) for path in files}
    if len(texts) > 1:  # a mistake in the last file is told before the first one is taken
        for path, text in texts.items():
            _sent(client, path, text, dry_run=True)
    jobs = [job for path, text in texts.items() for job in _sent(client, path, text, dry_run=run.dry_run)]
    _tell(jobs, run)
    if run.wait and not run.dry_run:
        for_each([job["id"] for job in jobs], lambda job_id: _wait(client, job_id, run))


def _sent(client: "Client", path: str, text: str, *, dry_run: bool) -> list[Record]:
    try:
        return client.submit(text, cwd=os.getcwd(), dry_run=dry_run)
    except InvalidRequest as error:  # of several files, the one that is wrong is named
        raise InvalidRequest(field=f"{path}: {error.field}", value=error.value, expected=error.expected) from None


def _tell(jobs: list[Record], run: SubmitOptions) -> None:
    for job in jobs:
        for warning in job.pop("warnings", None) or ():
            typer.echo(f"warning: {job['id']}: {one_line(warning)}", err=True)
    if run.output in (Form.JSON, Form.YAML):
        say(printed(jobs, run.output))
    elif run.output is Form.NAME:
        say("\n".join(job["id"] for job in jobs))
    else:
        for job in jobs:
            say(f"job {job['id']} " + ("would be created" if run.dry_run else "created"), quiet=run.quiet)
            if not run.dry_run:
                say(f"follow it with: {program()} logs -f {_typed(job)}", quiet=run.quiet)


def _wait(client: "Client", job_id: str, run: SubmitOptions) -> None:
    job = client.wait(job_id, until="finished", timeout_s=run.timeout)
    if job is not None and job["phase"] != "Succeeded":
        raise Conflict(f"{job_id} failed: {job.get('message') or job.get('reason')}")
    say(f"job {job_id} succeeded", quiet=run.quiet or run.output is not Form.TABLE)


def _typed(job: Record) -> str:
    """The job as its next command would name it."""
    usual = chosen()._replace(namespace=None).default_namespace()
    return str(job["name"] if job["namespace"] == usual else job["id"])


def _read(path: str) -> str:
    if path == "-":
        content = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1)
    else:
        with open(path, "rb") as source:
            content = source.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidRequest(field="--filename", value=path, expected=f"a file of at most {_FILE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(field="--filename", value=path, expected="text in UTF-8") from None


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(submit)
    cli.command(epilog=_EPILOG.replace("sterna submit", "sterna create"))(create)
