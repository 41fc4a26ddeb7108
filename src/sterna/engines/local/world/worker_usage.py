"""What workers use right now: CPU and memory of each one's processes, as the kernel counts them.

A worker is all that descends from the process the warden started for it. One walk through /proc serves all of them.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sterna.model.resources import Resources

_TICKS_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
EVERY_S = 5.0  # shorter stretches are mostly noise


class _Counted(NamedTuple):
    parent: int
    began: int  # ticks since boot: with the pid it names the process for good
    cpu_s: float
    memory_bytes: int


class Meter:
    """Remembers what it counted last, since use is what was added since."""

    def __init__(self, *, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._seen: dict[int, _Counted] = {}
        self._at_s: float | None = None
        self._used: dict[str, Resources] = {}

    def measured(self, pids: Mapping[str, int], now_mono_s: float) -> dict[str, Resources]:
        """By worker. One that was not there at the last look is measured at the next."""
        if self._at_s is not None and now_mono_s - self._at_s < self._every_s:
            return self._used
        counted = _all_processes()
        found: dict[str, Resources] = {}
        if self._at_s is not None:
            owners = _owners(counted, {pid: worker for worker, pid in pids.items()})
            took_s = now_mono_s - self._at_s
            known = {worker for worker, pid in pids.items() if self._is_same(pid, counted)}
            for worker in known:
                found[worker] = self._use_of((pid for pid, owner in owners.items() if owner == worker), counted, took_s)
        self._seen, self._at_s, self._used = counted, now_mono_s, found
        return found

    def _is_same(self, pid: int, counted: Mapping[int, _Counted]) -> bool:
        before, now = self._seen.get(pid), counted.get(pid)
        return before is not None and now is not None and before.began == now.began

    def _use_of(self, pids: Iterable[int], counted: Mapping[int, _Counted], took_s: float) -> Resources:
        cpu_s, memory_bytes = 0.0, 0
        for pid in pids:
            now = counted[pid]
            before = self._seen[pid].cpu_s if self._is_same(pid, counted) else 0.0
            cpu_s += max(0.0, now.cpu_s - before)
            memory_bytes += now.memory_bytes
        return Resources(round(cpu_s / took_s * 1000), memory_bytes)


def _owners(counted: Mapping[int, _Counted], roots: Mapping[int, str]) -> dict[int, str]:
    """The worker that each process belongs to; processes of no worker are left out."""
    found: dict[int, str] = {}
    for pid in counted:
        at, steps = pid, 0
        while at not in roots and at in counted and steps < 64:
            at, steps = counted[at].parent, steps + 1
        if at in roots:
            found[pid] = roots[at]
    return found


def _all_processes() -> dict[int, _Counted]:
    found: dict[int, _Counted] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as source:
                fields = source.read().rpartition(b") ")[2].split()
            found[int(name)] = _Counted(
                parent=int(fields[1]),
                began=int(fields[19]),
                cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_S,
                memory_bytes=int(fields[21]) * _PAGE_BYTES,
            )
        except (OSError, IndexError, ValueError):
            continue  # it has just ended
    return found
