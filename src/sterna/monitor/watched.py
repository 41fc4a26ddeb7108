"""A worker that the monitor looks at by itself, beside what the worker says."""

from pathlib import Path
from typing import NamedTuple


class Watched(NamedTuple):
    """None: there is no such thing, or it is not known."""

    pod: str  # namespace/name
    job_uid: str = ""
    pid: int | None = None  # the worker's first process: it and all its descendants are measured through /proc
    cgroup: Path | None = None  # measured rather than the processes. Of v1 the path below each controller's directory
    log: Path | None = None  # a file of output; a directory: the newest *.log below it
    pattern: str | None = None  # what to find in the log
    epochs: Path | None = None  # a training log in Voda's form, appended to once per epoch
