"""`sterna describe`: everything known about one thing."""

from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import Home, Namespace, client_of, complete_jobs, for_each, job_id_of, say
from sterna.interfaces.cli.terminal import strong
from sterna.model.errors import NotFound

if TYPE_CHECKING:
    from sterna.interfaces.client import Client

_EPILOG = """\b
Examples:
  sterna describe mnist
  sterna describe node node-1
  sterna describe migration 7
\b
`sterna get job NAME -o yaml` gives the same as data; `sterna explain NAME` says why it is so.
"""
_EVENTS_SHOWN = 20


def describe(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] NAME...", help="Jobs; nodes or migrations after that word.", autocompletion=complete_jobs
        ),
    ],
    namespace: Namespace = "default",
    home: Home = None,
) -> None:
    """Say everything that is known about a job.

    Sizes, times, progress, workers, what changed and why, latest events. Before the names, `node` or `migration` asks
    for those instead; a single word is always a job.
    """
    client = client_of(home)
    kind = names[0] if len(names) > 1 and names[0].rstrip("s") in ("job", "node", "migration") else "job"
    wanted = names[1:] if kind == names[0] else names
    texts = {"job": _job, "node": _node, "migration": _migration}
    tell = texts[kind.rstrip("s")]
    for_each(wanted, lambda name: say(tell(client, name, namespace)))


def _job(client: "Client", name: str, namespace: str) -> str:
    from datetime import UTC, datetime

    from sterna.interfaces.cli.events import all_events
    from sterna.interfaces.reports.description import job_description

    job_id = job_id_of(name, namespace)
    job = client.job(job_id)
    events = all_events(client, job_id)[-_EVENTS_SHOWN:]
    return job_description(job, events, now=datetime.now(UTC), strong=strong)


def _node(client: "Client", name: str, namespace: str) -> str:
    from sterna.interfaces.reports.description import node_description

    node = next((node for node in client.nodes() if node["name"] == name), None)
    if node is None:
        raise NotFound("node", name)
    return node_description(node, strong=strong)


def _migration(client: "Client", name: str, namespace: str) -> str:
    from datetime import UTC, datetime

    from sterna.interfaces.reports.description import migration_description

    move = next((move for move in client.migrations() if str(move["id"]) == name), None)
    if move is None:
        raise NotFound("migration", name)
    return migration_description(move, now=datetime.now(UTC), strong=strong)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(describe)
