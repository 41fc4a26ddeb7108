"""What watched workers use: counters read twice make a rate. Control groups, processes, GPUs: what there is."""

from collections.abc import Iterable
from pathlib import Path

from sterna.monitor.usage.cgroups import Cgroups, Counted, group_of_process, pod_uid_in
from sterna.monitor.usage.gpus import Gpus, GpuUse
from sterna.monitor.usage.proc_usage import Processes, machine
from sterna.monitor.watched import Watched
from sterna.protocol.reports import Usage


class Measuring:
    """Asked at some interval: everything is a mean over the time since it was asked before."""

    def __init__(self, *, cgroup_root: Path, proc: Path, gpus: Gpus | None = None) -> None:
        self._cgroups = Cgroups(cgroup_root)
        self._proc = proc
        self._gpus = gpus or Gpus()
        self._before: dict[str, dict[int, float]] = {}  # CPU seconds by process (0: the group's) of each pod
        self._before_s: float | None = None
        self._machine_cpu_s: float | None = None

    def pods(self) -> dict[str, Path]:
        """Groups of pods by uid."""
        return self._cgroups.pods()

    def usage(self, watched: Iterable[Watched], now_s: float) -> tuple[dict[str, Usage], Usage | None]:
        """By pod, and of the whole node. A pod's CPU is not known the first time it is looked at."""
        workers = [each for each in watched if each.pid is not None or each.cgroup is not None]
        over_s = None if self._before_s is None else now_s - self._before_s
        needs_processes = self._gpus.present or any(each.cgroup is None for each in workers)
        processes = Processes(self._proc) if needs_processes else None
        cards = self._by_pod(workers, processes) if processes is not None and self._gpus.present else {}
        before, self._before = self._before, {}
        used: dict[str, Usage] = {}
        for each in workers:
            counted = self._count(each, processes)
            self._before[each.pod] = {pid: one.cpu_s for pid, one in counted.items() if one.cpu_s is not None}
            memory = [one.memory_bytes for one in counted.values() if one.memory_bytes is not None]
            card = cards.get(each.pod)
            usage = Usage(
                cpu=_rate(before.get(each.pod), self._before[each.pod], over_s),
                memory_bytes=sum(memory) if memory else None,
                gpu=None if card is None else card.busy,
                gpu_memory_bytes=None if card is None else card.memory_bytes,
            )
            if usage != Usage():
                used[each.pod] = usage
        self._before_s = now_s
        return used, self._load(over_s)

    def close(self) -> None:
        self._gpus.close()

    def _count(self, watched: Watched, processes: Processes | None) -> dict[int, Counted]:
        if watched.cgroup is not None:
            return {0: self._cgroups.count(watched.cgroup)}
        assert watched.pid is not None
        return {} if processes is None else processes.count(watched.pid)

    def _load(self, over_s: float | None) -> Usage | None:
        counted = machine(self._proc)
        cpu = None
        if counted.cpu_s is not None:
            before, self._machine_cpu_s = self._machine_cpu_s, counted.cpu_s
            cpu = None if before is None or not over_s else max(0.0, counted.cpu_s - before) / over_s
        cards = self._gpus.whole()
        load = Usage(cpu, counted.memory_bytes, cards and cards.busy, cards and cards.memory_bytes)
        return None if load == Usage() else load

    def _by_pod(self, workers: list[Watched], processes: Processes) -> dict[str, GpuUse]:
        """A process is a pod's if it descends from the worker's first one, or is a member of the pod's group."""
        by_pid = {pid: each.pod for each in workers if each.pid is not None for pid in processes.tree(each.pid)}
        by_uid = {pod_uid_in(each.cgroup): each.pod for each in workers if each.cgroup is not None}
        used: dict[str, GpuUse] = {}
        for pid, use in self._gpus.by_process().items():
            pod = by_pid.get(pid)
            if pod is None and (group := group_of_process(pid, proc=self._proc)) is not None:
                uid = pod_uid_in(group)
                pod = by_uid.get(uid) if uid is not None else None
            if pod is not None:
                used[pod] = used.get(pod, GpuUse()) + use
        return used


def _rate(before: dict[int, float] | None, now: dict[int, float], over_s: float | None) -> float | None:
    """Cores. A process that began since then counts with all its time; the last time of one that ended is lost."""
    if before is None or not now or not over_s or over_s <= 0:
        return None
    return sum(max(0.0, cpu_s - before.get(pid, 0.0)) for pid, cpu_s in now.items()) / over_s
