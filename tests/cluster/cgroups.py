"""The part of the machine's cgroups that a cluster's kubelets manage: of version 1, one directory in each hierarchy."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

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


def remove(name: str, *, patience_s: float = 10.0) -> None:
    """With everything that still runs in it."""
    until_s = time.monotonic() + patience_s
    left = [top / name for top in [*_tops(), ROOT / "unified"]]  # containerd makes one there too
    while left := [path for path in left if path.exists()]:
        for path in left:
            _empty(path)
        assert time.monotonic() < until_s, f"{left[0]} cannot be removed"
        time.sleep(0.05)


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
