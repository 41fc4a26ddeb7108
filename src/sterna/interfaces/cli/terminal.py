"""What a terminal is told: colour where it is wanted, errors in one line, progress only if stderr is a terminal."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import typer

from sterna.model.errors import InvalidRequest, NotFound, SternaError

EXIT_FAILED = 1
EXIT_MISUSED = 2
EXIT_NOT_FOUND = 3
EXIT_TIMEOUT = 4
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141  # what a program killed by SIGPIPE gives; pipelines know it

OnProgress = Callable[[int, int], None]

_PROBLEMS_SHOWN = 5
_PATIENCE_S = 1.0  # a bar that would vanish at once only flickers

# what to type next, by how the name of the wrong field begins; the first that fits
_HINTS = (
    ("policy ", "sterna policies NAME shows a policy's options"),
    ("policy", "sterna policies lists them all"),
    ("model ", "sterna models NAME shows a model's options"),
    ("model", "sterna models lists them all"),
    ("profiles", "sterna models NAME says what a model needs"),
    ("format", "sterna traces lists the formats"),
    ("trace", "sterna traces lists the formats and the traces that come with the package"),
    ("snapshot", "sterna decide --schema prints what a snapshot file looks like"),
    ("nodes[", "sterna decide --schema prints what a snapshot file looks like"),
    ("jobs[", "sterna decide --schema prints what a snapshot file looks like"),
    ("document", "sterna decide --schema prints what a snapshot file looks like"),
    ("journal", "sterna simulate --journal FILE writes one, and engines keep one (docs/operations.md)"),
)


def has_colour(stream: TextIO) -> bool:
    """On a terminal that can, unless NO_COLOR is set (to anything) or TERM is dumb."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def strong(words: str) -> str:
    """In bold, where standard output is a terminal that wants colour."""
    return typer.style(words, bold=True) if has_colour(sys.stdout) else words


def tell_error(error: BaseException) -> int:
    """One line on standard error, a hint where there is one; returns the exit code."""
    prefix = typer.style("error:", fg="red", bold=True) if has_colour(sys.stderr) else "error:"
    typer.echo(f"{prefix} {_message(error)}", err=True)
    if hint := _hint(error):
        typer.echo(f"hint: {hint}", err=True)
    return exit_code(error)


def exit_code(error: BaseException) -> int:
    if isinstance(error, TimeoutError):  # an OSError as well, so it is asked for first
        return EXIT_TIMEOUT
    if isinstance(error, NotFound):
        return EXIT_NOT_FOUND
    return EXIT_MISUSED if isinstance(error, InvalidRequest | OSError) else EXIT_FAILED


def tell_problems(problems: tuple[str, ...]) -> None:
    """Rows of the trace that were left out, on standard error: the first few and how many there are."""
    for problem in problems[:_PROBLEMS_SHOWN]:
        typer.echo(f"left out: {problem}", err=True)
    if len(problems) > _PROBLEMS_SHOWN:
        typer.echo(f"left out: {len(problems) - _PROBLEMS_SHOWN:,} more rows", err=True)


def tell_unfinished(run: str, unfinished: Sequence[tuple[str, str]]) -> None:
    """Jobs that did not finish and why, on standard error: numbers without them would look better than they are."""
    for job_id, why in unfinished[:_PROBLEMS_SHOWN]:
        typer.echo(f"{run}: {job_id} {why}", err=True)
    if len(unfinished) > _PROBLEMS_SHOWN:
        typer.echo(f"{run}: {len(unfinished) - _PROBLEMS_SHOWN:,} more jobs did not finish", err=True)


@contextmanager
def open_sink(path: str) -> Iterator[Callable[[str], object]]:
    """Somewhere to write line by line. Opened before any work is done, so that a wrong place is told at once."""
    with open(path, "w", encoding="utf-8") as sink:
        yield sink.write
    typer.echo(f"wrote {path}", err=True)


def write_file(path: str, content: str) -> None:
    """Write a whole file and say so on standard error: standard output belongs to the answer."""
    with open(path, "w", encoding="utf-8") as sink:
        sink.write(content)
    typer.echo(f"wrote {path}", err=True)


@contextmanager
def progress(what: str) -> Iterator[OnProgress]:
    """A bar on standard error, from the first second on, if that is a terminal; otherwise nothing at all."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bar = _Bar(what)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._begun_s = time.monotonic()
        self._close: Callable[[], None] = lambda: None
        self._show: OnProgress | None = None

    def advance(self, done: int, total: int) -> None:
        if self._show is None:
            if time.monotonic() - self._begun_s < _PATIENCE_S:
                return
            self._open(total)
        assert self._show is not None
        self._show(done, total)

    def close(self) -> None:
        self._close()

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        task = shown.add_task(self._what, total=total)
        shown.start()
        self._close = shown.stop
        self._show = lambda done, total: shown.update(task, completed=done, total=total)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or 'cannot be read').lower()}"
    if isinstance(error, SternaError):
        return str(error)
    return str(error) or type(error).__name__


def _hint(error: BaseException) -> str | None:
    if not isinstance(error, InvalidRequest):
        return None
    return next((hint for beginning, hint in _HINTS if error.field.startswith(beginning)), None)
