"""What a worker leaves behind, found in /proc: by session, by the mark in its environment, by its new parent.

This is how it is done without control groups, and how a new warden looks for what its predecessor's processes left.
A control group finds them better; only a process that changed its session, dropped its environment and lost its
parents escapes this, until nothing else runs.

When a warden is killed, the processes it started die by their parent-death signal; their children are killed here.
The warden has a parent that sleeps until then. A process that loses its parents below it becomes its child, so it
finds every orphan however it hides. It keeps the warden's lock while it works, so a new warden finds nothing left.
Should both be killed in the same moment, the new warden sweeps up by control group and mark.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn

from sterna.engines.local.launch.warden.workers.cgroups import kill_all_in, kill_each, pids_in
from sterna.engines.local.launch.warden.workers.hierarchies import GroupPlace, read_text, removed

SWEEP_S = 10.0  # what does not die from SIGKILL in this time hangs in the kernel, and waiting longer does not help
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


def children_of(parent: int) -> list[int]:
    return [found.pid for found in processes() if found.parent == parent]


def _stat(pid: int) -> list[str]:
    """From its state on; the name before that may hold spaces and brackets. Empty when it is gone."""
    stat = read_text(f"/proc/{pid}/stat")
    return stat[stat.rfind(")") + 2 :].split()


def outlive(warden_pid: int, *, lock_fd: int, token: str, places: tuple[GroupPlace, ...]) -> NoReturn:
    """Wait for the warden's end; unless it left of its own accord, leave nothing behind that it started."""
    try:
        _let_go_of_everything_but(lock_fd)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # at a shutdown the warden decides, not we
            signal.signal(number, signal.SIG_IGN)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == warden_pid:
                break
        if status != 0:
            _kill_children()
            sweep(token, places)
            for place in places:
                removed(place.path)
    finally:
        os._exit(0)


def sweep(token: str, places: tuple[GroupPlace, ...]) -> list[int]:
    """Kill whatever processes of this home are left, and remove their groups; the pids that would not die."""
    until_s = time.monotonic() + SWEEP_S
    while left := _left(token, places):
        if time.monotonic() > until_s:
            return left
        kill_each(left)
        for group in _groups(places):
            kill_all_in(group)
        time.sleep(0.01)
    for group in _groups(places):
        removed(group)
    return []


def _kill_children() -> None:
    """Those of the killed become ours in turn, until there are none."""
    until_s = time.monotonic() + SWEEP_S
    while time.monotonic() < until_s:
        kill_each(children_of(os.getpid()))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _left(token: str, places: tuple[GroupPlace, ...]) -> list[int]:
    grouped = {pid for group in _groups(places) for pid in pids_in(group)}
    return sorted(grouped | set(marked(lambda mark: mark.startswith(f"{token}/"))))


def _groups(places: tuple[GroupPlace, ...]) -> list[str]:
    """Those below others first, since only an empty group can be removed."""
    found: list[str] = []
    above = [place.path for place in places]
    while above:
        try:
            below = [entry.path for entry in os.scandir(above.pop()) if entry.is_dir()]
        except OSError:
            continue
        found += below
        above += below
    return sorted(found, reverse=True)


def _let_go_of_everything_but(fd: int) -> None:
    os.closerange(3, fd)
    os.closerange(fd + 1, 1 << 20)
