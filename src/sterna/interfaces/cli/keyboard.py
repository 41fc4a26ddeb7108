"""Keys as they are pressed, without Enter, where standard input is a terminal; the terminal is left as it was."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_BYTES_MAX = 64


class Keyboard:
    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor  # None: no terminal, so no key is ever pressed

    def pressed(self, within_s: float) -> str | None:
        """The next key; None: none came in that time. An arrow or a function key is one key of several signs."""
        if self._descriptor is None:
            time.sleep(within_s)
            return None
        ready, _, _ = select.select([self._descriptor], [], [], within_s)
        if not ready:
            return None
        typed = os.read(self._descriptor, _BYTES_MAX).decode("utf-8", errors="replace")
        if typed == "":  # the terminal has gone
            self._descriptor = None
            return None
        return typed[0] if typed[0] != "\x1b" else typed


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Keys while this lasts. Ctrl-C stays an interrupt."""
    if not sys.stdin.isatty():
        yield Keyboard(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
