"""What a worker leaves behind for an engine on another machine, which cannot read its mailbox.

The only place in the SDK that asks what time it is: a monotonic clock means nothing elsewhere, and a date is for people
to read. Nothing here or anywhere is decided by it.
"""

import contextlib
import time
from dataclasses import replace
from pathlib import Path

from sterna.protocol import Status, write_last_word


def leave_last_word(path: Path | None, status: Status) -> None:
    """`path` None: nobody reads it. A file that cannot be written costs knowledge, never the training."""
    if path is not None:
        with contextlib.suppress(OSError):
            write_last_word(path, dated(status, wall_s=time.time(), mono_s=time.monotonic()))


def dated(status: Status, *, wall_s: float, mono_s: float) -> Status:
    """With dates for what it knows by the monotonic clock; both clocks are read at the same moment."""

    def date_of(moment_s: float | None) -> float | None:
        return None if moment_s is None else round(wall_s - (mono_s - moment_s), 3)

    return replace(
        status,
        first_step_wall_s=date_of(status.first_step_mono_s),
        stopped_wall_s=date_of(status.last_step_mono_s),
    )
