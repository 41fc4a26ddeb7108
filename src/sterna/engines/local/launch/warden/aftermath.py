"""What happens when a warden is killed: the processes it started die by their parent-death signal, and this kills
the rest, which no signal reaches: the children of those processes.

The warden has a parent, asleep for all its life. Whoever loses its parents below it becomes its child, so when the
warden dies it finds every orphan however it hides. It keeps the warden's lock while it works, so a new warden begins
in a clean house. Should both be killed in the same moment, the new warden sweeps up by control group and mark.
"""

import os
import signal
import time
from typing import NoReturn

from sterna.engines.local.launch.warden.cgroups import kill_all_in, pids_in, removed
from sterna.engines.local.launch.warden.hierarchies import Place
from sterna.engines.local.launch.warden.leftovers import children, kill_each, marked

SWEEP_S = 10.0  # what does not die from SIGKILL in this time hangs in the kernel, and waiting longer helps nobody


def outlive(warden_pid: int, *, lock_fd: int, token: str, places: tuple[Place, ...]) -> NoReturn:
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


def sweep(token: str, places: tuple[Place, ...]) -> list[int]:
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
        kill_each(children(os.getpid()))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _left(token: str, places: tuple[Place, ...]) -> list[int]:
    grouped = {pid for group in _groups(places) for pid in pids_in(group)}
    return sorted(grouped | set(marked(lambda mark: mark.startswith(f"{token}/"))))


def _groups(places: tuple[Place, ...]) -> list[str]:
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
