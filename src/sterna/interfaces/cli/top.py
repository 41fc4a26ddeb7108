"""`sterna top`: nodes and jobs, live."""

import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sterna.interfaces.cli.asking import Home, Record, client_of, until_interrupted
from sterna.interfaces.cli.options import seconds
from sterna.interfaces.cli.terminal import has_colour
from sterna.interfaces.cli.top_view import TopView
from sterna.model.errors import EngineUnavailable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sterna.interfaces.client import Client

_EPILOG = """\b
Examples:
  sterna top
  sterna top --once
  watch -n 10 sterna top
\b
Each node is a bar of its GPUs, or of its CPUs where it has none; each worker fills its part in its job's colour and
letter. Without a terminal the picture is printed once.
\b
Keys: q or Ctrl-C ends it, s sorts otherwise (state, name, age, size, progress), / filters by name, state or reason,
a shows jobs that ended more than 5 minutes ago as well.
"""
_WINDOW_S = 6.0
_PAGE_COLUMNS = 160


def top(
    interval: Annotated[
        float, typer.Option("--interval", metavar="TIME", parser=seconds, help="Time between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Draw once, and stop.")] = False,
    home: Home = None,
) -> None:
    """Watch nodes fill and jobs train.

    Who runs where, how far each job is, how fast it goes, and why it is as it is.
    """
    from rich.console import Console

    client = client_of(home)
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PAGE_COLUMNS  # no terminal cuts it
    console = Console(no_color=not has_colour(sys.stdout), highlight=False, width=width)
    if once or not sys.stdout.isatty():
        console.print(_once(client))
    else:
        with until_interrupted():
            _live(client, console, max(0.2, interval))


def drawn(
    jobs: Sequence[Record],
    nodes: Sequence[Record],
    rates: dict[str, float] | None = None,
    *,
    view: TopView | None = None,
) -> "RenderableType":
    """The picture; `rates` are steps a second by job id, where they are known. No view: all jobs, by their state."""
    from sterna.interfaces.reports.screen import Screen

    now = datetime.now(UTC)
    if view is None:
        return Screen(jobs, nodes, rates or {}, TopView(shows_ended=True).chosen(jobs, now))
    return Screen(jobs, nodes, rates or {}, view.chosen(jobs, now), legend=view.legend)


def _live(client: "Client", console: Any, interval_s: float) -> None:
    """Redrawn in place. An engine that goes away is told below the last picture, and waited for."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from sterna.interfaces.cli.keyboard import keyboard

    rates, view, trouble = Rates(), TopView(), ""
    jobs, nodes = client.jobs(), client.nodes()
    looked_s = time.monotonic()
    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not view.is_left:
            picture = drawn(jobs, nodes, rates.of(jobs, looked_s), view=view)
            live.update(Group(picture, Text(trouble, style="bold red")) if trouble else picture, refresh=True)
            if key := keys.pressed(max(0.0, looked_s + interval_s - time.monotonic())):
                view = view.after(key)
                continue
            looked_s = time.monotonic()
            try:
                jobs, nodes, trouble = client.jobs(), client.nodes(), ""
            except EngineUnavailable as error:
                trouble = str(error)


def _once(client: "Client") -> "RenderableType":
    return drawn(client.jobs(), client.nodes())


class Rates:
    """Steps a second, from how far each job came in the last seconds it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def of(self, jobs: Sequence[Record], now_s: float) -> dict[str, float]:
        for job in jobs:
            if job.get("step") is not None:
                seen = self._seen.setdefault(job["id"], deque())
                if seen and job["step"] < seen[-1][1]:
                    seen.clear()  # a step was lost, or another job has the name
                seen.append((now_s, job["step"]))
                while now_s - seen[0][0] > _WINDOW_S:
                    seen.popleft()
        return {job_id: _rate(seen) for job_id, seen in self._seen.items() if len(seen) > 1}


def _rate(seen: "deque[tuple[float, int]]") -> float:
    (from_s, first), (to_s, last) = seen[0], seen[-1]
    return (last - first) / (to_s - from_s) if to_s > from_s else 0.0


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(top)
