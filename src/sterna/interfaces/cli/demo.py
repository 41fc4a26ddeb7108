"""`sterna demo`: real training on this machine in two minutes, and a report."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.terminal import EXIT_FAILED, write_file

if TYPE_CHECKING:
    from sterna.interfaces.scheduler_port import Record

_EPILOG = """\b
Examples:
  sterna demo
  sterna demo --report figures.json --page demo.html
\b
Starts an engine of its own in a directory of its own and takes both away at the end; nothing of yours is touched.
"""


def demo(
    report: Annotated[str | None, typer.Option("--report", metavar="FILE", help="Write the figures as JSON.")] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE", help="Write one HTML page with the picture.")
    ] = None,
    figure: Annotated[
        str | None, typer.Option("--figure", metavar="FILE", help="Write the picture of who ran where as SVG.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Use this directory for the engine and leave it there.")
    ] = None,
) -> None:
    """Train for real on this machine: six jobs share three virtual nodes, and one node is emptied under them.

    Takes about two minutes. Jobs enter one after the other, stretch over idle GPUs, shrink for newcomers and move away
    from the node that is drained. With a terminal the jobs are drawn while they train, otherwise events are printed.
    Ends with exit code 0 if every job finished and no step was lost.
    """
    import json

    from sterna.interfaces.demo.report import figures, picture, text_report, went_well
    from sterna.interfaces.demo.report import page as page_of
    from sterna.interfaces.demo.stage import staged

    with staged(keep) as play, _audience() as (on_events, on_look):
        seen = play(on_events, on_look).run()
    found = figures(seen)
    typer.echo(text_report(found))
    if report:
        write_file(report, json.dumps(found, indent=2) + "\n")
    if page:
        write_file(page, page_of(seen, found))
    if figure:
        write_file(figure, picture(seen))
    if not went_well(found):
        raise typer.Exit(EXIT_FAILED)


Teller = Callable[[float, "Sequence[Record]"], None]
Drawer = Callable[[float, "Sequence[Record]", "Sequence[Record]"], None]


@contextmanager
def _audience() -> "Iterator[tuple[Teller, Drawer]]":
    """On a terminal the play is drawn; otherwise what happens is told line by line."""
    if not sys.stdout.isatty():
        yield _tell, lambda now_s, jobs, nodes: None
        return
    from rich.live import Live

    from sterna.interfaces.cli.top import drawn

    with Live(auto_refresh=False, transient=True) as live:
        yield lambda now_s, events: None, lambda now_s, jobs, nodes: live.update(drawn(jobs, nodes), refresh=True)


def _tell(now_s: float, events: "Sequence[Record]") -> None:
    for event in events:
        about = event.get("job") or event.get("node") or ""
        typer.echo(f"{now_s:6.1f} s  {about.removeprefix('default/'):<12} {event['reason']}: {event['message']}")
    sys.stdout.flush()


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(demo)
