"""`sterna events`: what happened, of one job or of all, once or as it happens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import (
    Form,
    Home,
    Namespace,
    OutputForm,
    Record,
    client_of,
    complete_jobs,
    job_id_of,
    printed,
    say,
    until_interrupted,
)
from sterna.interfaces.cli.terminal import strong

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

_EPILOG = """\b
Examples:
  sterna events
  sterna events mnist -f
  sterna events mnist -o json | jq '.[] | select(.type == "Warning")'
"""
_PAGE = 1000
_LOOK_AGAIN_S = 10.0


def events(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Only of this job.", autocompletion=complete_jobs)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as events happen, until Ctrl-C.")] = False,
    namespace: Namespace = "default",
    output: OutputForm = Form.TABLE,
    home: Home = None,
) -> None:
    """Print what happened, to a job or to all.

    Oldest first. Also events of jobs that are deleted meanwhile, for as long as the engine keeps them.
    """
    client = client_of(home)
    job_id = None if job is None else job_id_of(job, namespace)
    found = all_events(client, job_id)
    if job_id is not None and not found:
        client.job(job_id)  # nothing ever happened to it: then it should at least be there
    if not follow:
        _print(found, output)
        return
    with until_interrupted():
        _print(found, output, watched=True)
        for more in _news(client, job_id, after=found[-1]["id"] if found else 0):
            _print(more, output, watched=True, head=False)


def all_events(client: "Client", job_id: str | None, *, after: int = 0) -> list[Record]:
    """Page by page to the end."""
    found: list[Record] = []
    while page := client.events(job_id, after=after, limit=_PAGE):
        found += page
        after = int(page[-1]["id"])
        if len(page) < _PAGE:
            break
    return found


def _news(client: "Client", job_id: str | None, *, after: int) -> Iterator[list[Record]]:
    counter = after
    while True:
        counter = client.changed(after=counter, timeout_s=_LOOK_AGAIN_S)
        if found := all_events(client, job_id, after=after):
            after = int(found[-1]["id"])
            yield found


def _print(found: list[Record], form: Form, *, watched: bool = False, head: bool = True) -> None:
    match form:
        case Form.NAME:
            for event in found:
                say(str(event["id"]))
        case Form.JSON | Form.YAML if watched:
            for event in found:
                say(("---\n" if form is Form.YAML else "") + printed(event, form))
        case Form.JSON | Form.YAML:
            say(printed(found, form))
        case _:
            from datetime import UTC, datetime

            from sterna.interfaces.reports.record_tables import EVENTS, record_table

            say(record_table(EVENTS, found, now=datetime.now(UTC), head=head, strong=strong))


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(events)
