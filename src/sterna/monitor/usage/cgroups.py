"""What control groups count: CPU time and memory of a group, and which groups are pods. Versions 1 and 2.

Only reading of small files below a root that the caller names. Version 1 has a directory per controller with the same
tree below each; version 2 has one tree, marked by `cgroup.controllers` at its top (or in `unified`, where both are
mounted and version 1 does the counting).
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:[a-z-]+-)?pod({_UID})(?:\.slice)?")
_CLASSES = re.compile(r"(?:[a-z-]+-)?(?:kubelet|kubepods|besteffort|burstable|guaranteed)(?:\.slice)?")
_DEPTH_MAX = 6


class Counted(NamedTuple):
    cpu_s: float | None  # used since the group was made
    memory_bytes: int | None  # now, without what the kernel would give back: caches of files that are no longer read


class Cgroups:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._is_v2 = (root / "cgroup.controllers").exists()

    @property
    def top(self) -> Path:
        """Below which groups are looked for; a group is named by its path from here."""
        if self._is_v2:
            return self._root
        alone, joined = self._root / "cpuacct", self._root / "cpu,cpuacct"
        return alone if alone.exists() else joined

    def count(self, group: Path) -> Counted:
        """Of the group at this path below the root."""
        relative = str(group).lstrip("/")
        if self._is_v2:
            here = self._root / relative
            return Counted(_v2_cpu_s(here), _memory(here, "memory.current", "inactive_file"))
        memory = self._root / "memory" / relative
        return Counted(_v1_cpu_s(self.top / relative), _memory(memory, "memory.usage_in_bytes", "total_inactive_file"))

    def pods(self) -> dict[str, Path]:
        """By the pod's uid, the path of its group: wherever in the tree the kubelet put it, with either driver."""
        found: dict[str, Path] = {}
        self._look(self.top, Path(), found, _DEPTH_MAX)
        return found

    def _look(self, here: Path, relative: Path, found: dict[str, Path], depth: int) -> None:
        if depth == 0:
            return
        try:
            names = [entry.name for entry in os.scandir(here) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return  # gone meanwhile, or not ours to see
        for name in names:
            match = _POD.fullmatch(name)
            if match is not None:
                found[uid_of(match[1])] = relative / name
            elif depth == _DEPTH_MAX or _CLASSES.fullmatch(name):  # at the top anything may hold a kubelet's tree
                self._look(here / name, relative / name, found, depth - 1)


def uid_of(text: str) -> str:
    """As the API writes it: systemd's names have underscores for dashes, static pods have neither."""
    return text.replace("_", "-")


def group_of_process(pid: int, *, proc: Path) -> Path | None:
    """The process's group in the tree that counts."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    paths = {
        controllers: path for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2)
    }
    for controllers, path in paths.items():
        if "cpuacct" in controllers.split(","):
            return Path(path.lstrip("/"))
    return Path(paths[""].lstrip("/")) if "" in paths else None


def pod_uid_in(group: Path) -> str | None:
    """The uid of the pod that a group is in."""
    for part in group.parts:
        match = _POD.fullmatch(part)
        if match is not None:
            return uid_of(match[1])
    return None


def _v2_cpu_s(here: Path) -> float | None:
    used = _fields(here / "cpu.stat").get("usage_usec")
    return None if used is None else used / 1e6


def _v1_cpu_s(here: Path) -> float | None:
    used = _whole(here / "cpuacct.usage")
    return None if used is None else used / 1e9


def _memory(here: Path, usage: str, cache: str) -> int | None:
    used = _whole(here / usage)
    return None if used is None else max(0, used - _fields(here / "memory.stat").get(cache, 0))


def _whole(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _fields(path: Path) -> dict[str, int]:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
    except OSError:
        return {}
