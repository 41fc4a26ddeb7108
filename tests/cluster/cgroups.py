"""The part of the machine's cgroups that a cluster's kubelets manage: of version 1, one directory in each hierarchy."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.waiting import until

ROOT = Path("/sys/fs/cgroup")


def usable() -> bool:
    return all(os.access(top, os.W_OK) for top in _tops())


def make(name: str) -> None:
    """`name` may have parts; the directory has all that a kubelet's `cgroupRoot` needs."""
    for top in _tops():
        path = top
        for part in Path(name).parts:
            if top == ROOT:  # version 2: a parent says what its children may use
                wanted = (path / "cgroup.controllers").read_text().split()
                (path / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in wanted))
            path = path / part
            path.mkdir(exist_ok=True)
            if top.name == "cpuset":  # version 1: empty at first, and nothing can run in it
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (path / file).write_text((path.parent / file).read_text())


def limit_cpu(name: str, cpus: float | None) -> None:
    """Everything below `name` together gets so many processors and no more, even where others want all there are. None:
    as many as are free."""
    period_us = 100_000
    quota_us = None if cpus is None else round(cpus * period_us)
    first = Path(name).parts[0]
    for top in _tops():
        if top == ROOT:
            (top / name / "cpu.max").write_text(f"{'max' if quota_us is None else quota_us} {period_us}")
            (top / first / "cpu.weight").write_text("100" if quota_us is None else "10000")
        elif (top / name / "cpu.cfs_quota_us").exists():
            (top / name / "cpu.cfs_quota_us").write_text(str(-1 if quota_us is None else quota_us))
            (top / first / "cpu.shares").write_text("1024" if quota_us is None else "262144")


def remove(name: str, *, patience_s: float = 10.0) -> None:
    """With everything that still runs in it."""
    paths = [top / name for top in [*_tops(), ROOT / "unified"]]  # containerd makes one there too

    def gone() -> bool:
        for path in paths:
            _empty(path)
        return not any(path.exists() for path in paths)

    until(gone, f"the control group {name} is removed", patience_s=patience_s, every_s=0.05)


def _empty(path: Path) -> None:
    for directory, _, files in os.walk(path, topdown=False):
        with suppress(OSError):
            if "cgroup.procs" in files:
                for pid in Path(directory, "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            os.rmdir(directory)


def _tops() -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [path for path in sorted(ROOT.iterdir()) if path.is_mount() and path.name != "unified"]
