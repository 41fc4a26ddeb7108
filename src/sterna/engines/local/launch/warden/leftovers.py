"""What a worker leaves behind, found in /proc: by session, by the mark in its environment, by its new parent.

This is how it is done without control groups, and how a new warden looks for what its predecessor's processes left.
A control group finds them better; only a process that changed its session, dropped its environment and lost its
parents escapes this, until nothing else runs.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sterna.engines.local.launch.warden.hierarchies import read_text

MARK = "STERNA_WARDEN"  # environment of every worker: <token of the home>/<id of the launch>


class Found(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    began_ticks: int  # since the boot; with the pid, it names a process for good


def processes() -> Iterator[Found]:
    """Everything that runs."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := process(int(name))):
            yield found


def process(pid: int) -> Found | None:
    """None when it is gone, or dead and only not waited for."""
    fields = _stat(pid)
    if not fields or fields[0] in ("Z", "X"):
        return None
    return Found(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def began_ticks(pid: int) -> int:
    """When it began, dead or alive; 0 when it is gone. Whatever it leaves behind began no earlier."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def mark_of(pid: int) -> str:
    """The mark a process was started with; empty without one, or when it is not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError:
        return ""
    sought = f"{MARK}=".encode()
    marks = (entry for entry in environ.split(b"\0") if entry.startswith(sought))
    return os.fsdecode(next(marks, sought))[len(sought) :]


def of_worker(leader: int, mark: str, *, since_ticks: int) -> list[Found]:
    """Processes of one worker, the leader left out. The leader must not have been reaped, or its number may be new."""
    return [
        found
        for found in processes()
        if found.pid != leader
        and found.began_ticks >= since_ticks
        and (leader in (found.session, found.group) or mark_of(found.pid) == mark)
    ]


def still_there(found: Iterable[Found]) -> list[int]:
    now = ((before, process(before.pid)) for before in found)
    return [after.pid for before, after in now if after is not None and after.began_ticks == before.began_ticks]


def marked(matches: Callable[[str], bool], *, since_ticks: int = 0) -> list[int]:
    """Of those that began since then: reading the environment of everything that runs is what costs."""
    own = os.getpid()
    return [
        found.pid
        for found in processes()
        if found.pid != own and found.began_ticks >= since_ticks and matches(mark_of(found.pid))
    ]


def children(parent: int) -> list[int]:
    return [found.pid for found in processes() if found.parent == parent]


def _stat(pid: int) -> list[str]:
    """From its state on; the name before that may hold spaces and brackets. Empty when it is gone."""
    stat = read_text(f"/proc/{pid}/stat")
    return stat[stat.rfind(")") + 2 :].split()


def kill_each(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
