"""What /proc says: CPU time and memory of a process with all its descendants, and of the whole machine."""

import os
from collections import defaultdict
from pathlib import Path

from sterna.monitor.usage.cgroups import Counted

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Processes:
    """The process table as it is when this is made; one look serves all workers of a node."""

    def __init__(self, proc: Path) -> None:
        self._counted: dict[int, Counted] = {}
        self._children: dict[int, list[int]] = defaultdict(list)
        try:
            pids = [int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()]
        except OSError:
            pids = []
        for pid in pids:
            self._add(proc, pid)

    def tree(self, pid: int) -> list[int]:
        """A process and all that descend from it; none if it is gone."""
        found = [pid] if pid in self._counted else []
        for each in found:
            found += self._children.get(each, ())
        return found

    def count(self, pid: int) -> dict[int, Counted]:
        """By process. CPU times are per process because one that ends must not make the sum fall."""
        return {each: self._counted[each] for each in self.tree(pid)}

    def _add(self, proc: Path, pid: int) -> None:
        try:
            stat = (proc / str(pid) / "stat").read_text()
        except OSError:
            return  # it has ended
        fields = stat[stat.rfind(")") + 2 :].split()  # the name before may hold anything, blanks and brackets included
        try:
            parent, user, system, resident = (int(fields[place]) for place in (1, 11, 12, 21))
        except (IndexError, ValueError):
            return
        self._counted[pid] = Counted((user + system) / _TICKS_PER_S, resident * _PAGE_BYTES)
        self._children[parent].append(pid)


def machine(proc: Path) -> Counted:
    """CPU time spent by everything, and memory that no other process could have."""
    return Counted(_machine_cpu_s(proc), _machine_memory(proc))


def _machine_cpu_s(proc: Path) -> float | None:
    try:
        fields = (proc / "stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def _machine_memory(proc: Path) -> int | None:
    try:
        lines = (line.split() for line in (proc / "meminfo").read_text().splitlines())
        kib = {line[0].rstrip(":"): int(line[1]) for line in lines if len(line) >= 2}
        return 1024 * (kib["MemTotal"] - kib["MemAvailable"])
    except (OSError, ValueError, KeyError):
        return None
