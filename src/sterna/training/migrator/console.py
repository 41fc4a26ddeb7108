"""What the migrator prints: the lines that users of pytorchjob-migration know, with the time before them."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


def say(line: str, *, to: TextIO | None = None) -> None:
    """`2021-09-24 11:07:58 saved ckpt!` A program may have closed its output: then nothing is printed."""
    plain(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", to=to)


def plain(line: str, *, to: TextIO | None = None) -> None:
    """The line without the time before it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        file = sys.stdout if to is None else to
        file.write(line + "\n")
        file.flush()


@contextlib.contextmanager
def log_to(path: Path | None) -> Iterator[TextIO]:
    """The file, begun anew; the console if there is none or it cannot be written: a hook must not fail for that."""
    if path is None:
        yield sys.stdout
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        plain(f"cannot write to {path}: {error.strerror}", to=sys.stderr)
        yield sys.stdout
        return
    with file:
        yield file


def date() -> str:
    """As the program of that name prints it: `Fri Sep 24 11:07:57 UTC 2021`."""
    return time.strftime("%a %b %e %H:%M:%S %Z %Y")
