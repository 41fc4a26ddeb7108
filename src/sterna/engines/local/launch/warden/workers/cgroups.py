"""Control groups, version 1, 2 or both: one group for each worker, with its limits, and to find all that is in it.

Workers of a virtual node stand below a group of that node, whose quota they share: what one of them uses the others do
not have, as on a machine of that size. Where groups may be made is `hierarchies.py`'s question. Limits that were asked
for and cannot be set become notes on the process, never a silent nothing; a worker's end never depends on them.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from sterna.engines.local.launch.warden.values import Launch, Limit, Limits
from sterna.engines.local.launch.warden.workers.hierarchies import (
    GroupPlace,
    hand_down,
    make,
    read_text,
    removed,
    try_to_write,
    write_text,
)

CPU_PERIOD_US = 100_000
CPU_QUOTA_US_MIN = 1_000  # the kernel takes no less
NODE = "node:"  # how groups of nodes are called; no worker is, since its id has no colon


class Cgroups(NamedTuple):
    """Our directory in each hierarchy that helps; empty on a machine that gives us none."""

    places: tuple[GroupPlace, ...]
    why_not: str  # what keeps us out of the others

    def limits(self) -> Limits:
        """What can be enforced here, by what; or why not and what would help."""
        memory = next((place for place in self.places if place.memory), None)
        cpu = next((place for place in self.places if place.cpu), None)
        advice = "run as root, or in a control group handed to this user (systemd: Delegate=yes, DelegateSubgroup=)"
        no = Limit(False, f"{self.why_not or 'no control groups'}; {advice}")
        hides = "without control groups, a process that leaves its session, parents and environment is missed"
        return Limits(
            memory=Limit(True, f"{memory.label}, {memory.path}") if memory else no,
            cpu=Limit(True, f"{cpu.label}, {cpu.path}") if cpu else no,
            affinity=Limit(True, "sched_setaffinity; a worker could widen its own again"),
            leftovers=Limit(True, f"{self.places[0].label}, {self.places[0].path}")
            if self.places
            else Limit(False, hides),
        )

    def group_for(self, launch: Launch) -> "Group":
        """Make the worker's group where it needs one, and set its limits."""
        notes: list[str] = []
        paths: list[str] = []
        shared = launch.node_cpu_milli
        for place in self.places:
            if not (place is self.places[0] or place.serves(launch.memory_bytes, launch.cpu_milli or shared)):
                continue  # the first finds what is left behind; of the others only those that limit something
            above = _node_group(place, launch.node, shared, notes) if shared is not None and place.cpu else place.path
            path = f"{above}/{launch.id}"
            try:
                make(path)  # one that a predecessor's sweep could not remove is empty, or the sweep would have waited
            except OSError as error:
                notes.append(f"no control group for it in {place.label}: {os.strerror(error.errno or 0)}")
                continue
            paths.append(path)
        group = Group(launch.id, tuple(paths), self.places)
        own_milli = launch.cpu_milli
        if own_milli is not None and shared is not None:
            own_milli = min(own_milli, shared)  # version 1 takes no quota above the one it stands below
        notes += group.limit_memory(launch.memory_bytes) + group.limit_cpu(own_milli)
        if shared is not None and not any(place.cpu for place in self.places):
            notes.append(f"CPU quota of {shared}m of {launch.node} is not enforced: no control group")
        return group._replace(notes=tuple(notes))


class Group(NamedTuple):
    """One worker's group in each hierarchy; without any, nothing is limited, found or killed by it."""

    id: str
    paths: tuple[str, ...]
    places: tuple[GroupPlace, ...]
    notes: tuple[str, ...] = ()

    @property
    def join(self) -> tuple[str, ...]:
        return tuple(f"{path}/cgroup.procs" for path in self.paths)

    def limit_memory(self, limit_bytes: int | None) -> list[str]:
        """Set the limit; notes on what could not be set."""
        if limit_bytes is None:
            return []
        path, unified = self._path_of("memory")
        if path is None:
            return [f"memory limit of {in_mib(limit_bytes)} is not enforced: no control group"]
        try:
            if unified:
                write_text(f"{path}/memory.max", str(limit_bytes))
                try_to_write(f"{path}/memory.swap.max", "0")  # absent without swap
                try_to_write(
                    f"{path}/memory.oom.group", "1"
                )  # a training process that lost some of its children is of no use
            else:
                write_text(f"{path}/memory.limit_in_bytes", str(limit_bytes))
                try_to_write(f"{path}/memory.memsw.limit_in_bytes", str(limit_bytes))
        except OSError as error:
            return [f"memory limit of {in_mib(limit_bytes)} is not enforced: {error}"]
        return []

    def limit_cpu(self, milli: int | None) -> list[str]:
        """Its quota, and its weight against its neighbours by the same number."""
        path, unified = self._path_of("cpu")
        if path is not None:
            weigh(path, milli or 1000, unified=unified)
        if milli is None:
            return []
        if path is None:
            return [f"CPU quota of {milli}m is not enforced: no control group"]
        try:
            _set_quota(path, milli, unified=unified)
        except OSError as error:
            return [f"CPU quota of {milli}m is not enforced: {error}"]
        return []

    def pids(self) -> list[int]:
        """What still runs in it; every hierarchy has the same, so the first is asked."""
        return pids_in(self.paths[0]) if self.paths else []

    def kill(self) -> None:
        if self.paths:
            kill_all_in(self.paths[0])

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of it for its memory limit."""
        path, unified = self._path_of("memory")
        counts = read_text(f"{path}/{'memory.events' if unified else 'memory.oom_control'}") if path else ""
        return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in counts.splitlines())

    def remove(self) -> bool:
        """False while the kernel has not let go of what was in it. A node's group goes with the last one below it."""
        gone = [path for path in self.paths if removed(path)]
        for path in gone:
            above = os.path.dirname(path)
            if os.path.basename(above).startswith(NODE):
                removed(above)
        return len(gone) == len(self.paths)

    def _path_of(self, controller: str) -> tuple[str | None, bool]:
        for place in self.places:
            own = (path for path in self.paths if path.startswith(f"{place.path}/"))
            if getattr(place, controller) and (path := next(own, None)) is not None:
                return path, place.unified
        return None, False


def _node_group(place: GroupPlace, node: str, milli: int, notes: list[str]) -> str:
    """The group that all workers of a node share, with its quota; where it cannot be had, ours above it."""
    path = f"{place.path}/{NODE}{node}"
    try:
        make(path)
        if place.unified:
            hand_down(path)
        weigh(path, milli, unified=place.unified)
        _set_quota(path, milli, unified=place.unified)
    except OSError as error:
        notes.append(f"CPU quota of {milli}m of {node} is not enforced: {error}")
    return path if os.path.isdir(path) else place.path


def _set_quota(path: str, milli: int, *, unified: bool) -> None:
    quota_us = max(CPU_QUOTA_US_MIN, milli * CPU_PERIOD_US // 1000)
    if unified:
        write_text(f"{path}/cpu.max", f"{quota_us} {CPU_PERIOD_US}")
    else:
        write_text(f"{path}/cpu.cfs_period_us", str(CPU_PERIOD_US))
        write_text(f"{path}/cpu.cfs_quota_us", str(quota_us))


def weigh(path: str, milli: int, *, unified: bool) -> None:
    """Its share of a busy machine. A group weighs as much as a single process, however many it has, unless told."""
    if unified:
        try_to_write(f"{path}/cpu.weight", str(min(10_000, max(1, milli // 10))))
    else:
        try_to_write(f"{path}/cpu.shares", str(min(262_144, max(2, milli * 1024 // 1000))))


def pids_in(path: str) -> list[int]:
    return [int(word) for word in read_text(f"{path}/cgroup.procs").split()]


def kill_all_in(path: str) -> None:
    """At once where the kernel can, else one by one; a caller that needs them gone asks again."""
    try:
        write_text(f"{path}/cgroup.kill", "1")
    except OSError:  # version 1, or an older kernel
        kill_each(pids_in(path))


def kill_each(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def in_mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB" if size_bytes >= 2**20 else f"{size_bytes} bytes"
