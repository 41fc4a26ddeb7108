"""Where on this machine control groups can be made, found by trying: the mounts, our own place, our permissions.

A group goes as high as possible: below the nearest ancestor that has a limit of its own (which thus keeps binding
what we start), else at the top. Lower would put training processes into the group of a login session or of a service,
and the end of that session would end them, which the warden exists to prevent.
"""

import os
from contextlib import suppress
from typing import NamedTuple

V1_UNLIMITED_BYTES = 2**62  # version 1 shows "no limit" as the largest multiple of a page


class GroupPlace(NamedTuple):
    """A directory of ours in one hierarchy, in which we may make groups and move processes."""

    path: str
    unified: bool  # version 2
    memory: bool
    cpu: bool

    def serves(self, memory_bytes: int | None, cpu_milli: int | None) -> bool:
        return (self.memory and memory_bytes is not None) or (self.cpu and cpu_milli is not None)

    @property
    def label(self) -> str:
        return "cgroup v2" if self.unified else "cgroup v1"


class Mount(NamedTuple):
    point: str
    own: str  # our own group, relative to the mount point, "" at its top
    controllers: frozenset[str]  # of version 1; empty for version 2, whose groups say themselves what they have
    unified: bool


def find_places(name: str, choice: str) -> tuple[tuple[GroupPlace, ...], str]:
    """Our places called `name`, version 2 first, and why there are not more. `choice`: auto, none, or a directory."""
    if choice == "none":
        return (), "control groups are switched off"
    if choice == "auto":
        candidates = mounts(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup"))
        chains = [(_parents(mount), mount.unified) for mount in candidates]
    elif not os.path.exists(f"{choice}/cgroup.procs"):
        return (), f"{choice} is not a control group"
    else:
        chains = [([choice], os.path.exists(f"{choice}/cgroup.controllers"))]
    found = [_best(parents, name, unified=unified) for parents, unified in chains]
    places = tuple(place for place, _ in found if place is not None)
    lacking = not (any(place.memory for place in places) and any(place.cpu for place in places))
    return places, "; ".join(why for _, why in found if why) if lacking else ""


def mounts(mountinfo: str, own_groups: str) -> list[Mount]:
    """The hierarchies worth a try: version 2, and those of version 1 that limit memory or CPU, in that order."""
    own_groups_of = [(frozenset(filter(None, names.split(","))), path) for names, path in _split(own_groups)]
    found: dict[tuple[bool, frozenset[str]], Mount] = {}  # a hierarchy may be mounted twice
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        wanted = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
        if kind not in ("cgroup", "cgroup2") or (kind == "cgroup" and not wanted & {"memory", "cpu"}):
            continue
        same = ((names, path) for names, path in own_groups_of if names <= wanted and bool(names) == bool(wanted))
        controllers, path = next(same, (frozenset[str](), "/"))
        own = path[len(root.rstrip("/")) :].strip("/") if (path + "/").startswith(root.rstrip("/") + "/") else ""
        unified = kind == "cgroup2"
        found.setdefault((unified, controllers), Mount(_unescaped(point), own, controllers, unified))
    return sorted(found.values(), key=lambda mount: (not mount.unified, "memory" not in mount.controllers, mount.point))


def _split(own_groups: str) -> list[tuple[str, str]]:
    """`4:memory:/a/b` is controllers and path; version 2 is `0::/a/b`."""
    parts = (line.split(":", 2) for line in own_groups.splitlines())
    return [(names, path) for _, names, path in parts]


def _parents(mount: Mount) -> list[str]:
    """From the highest group we may use down to our own."""
    parts = mount.own.split("/") if mount.own and ".." not in mount.own else []
    chain = [os.path.join(mount.point, *parts[:depth]) for depth in range(len(parts) + 1)]
    limited = [at for at, path in enumerate(chain) if at and _has_limit(path)]
    return chain[limited[-1] if limited else 0 :]


def _has_limit(path: str) -> bool:
    v1_bytes = read_text(f"{path}/memory.limit_in_bytes").strip()
    return (
        (v1_bytes.isdigit() and int(v1_bytes) < V1_UNLIMITED_BYTES)
        or read_text(f"{path}/cpu.cfs_quota_us").strip() not in ("", "-1")
        or read_text(f"{path}/memory.max").strip() not in ("", "max")
        or read_text(f"{path}/cpu.max").split()[:1] not in ([], ["max"])
    )


def _best(parents: list[str], name: str, *, unified: bool) -> tuple[GroupPlace | None, str]:
    """The highest place that has limits, else the highest one at all: it still finds what a worker left behind."""
    best, why = None, ""
    for parent in parents:
        try:
            place = _settled(parent, name, unified=unified)
        except OSError as error:
            removed(f"{parent}/{name}")
            why = why or f"{parent}: {os.strerror(error.errno or 0)}"
            continue
        if place.memory or place.cpu:
            return place, ""
        if _controllers(parent, unified=unified):
            why = why or f"{parent}: has processes of its own, so it hands no limits down"
        if best is None:
            best = place
        else:
            removed(place.path)
    return best, why


def _settled(parent: str, name: str, *, unified: bool) -> GroupPlace:
    """Make our directory below `parent`, hand controllers down to it, and try it with a group and a process."""
    path = f"{parent}/{name}"
    if unified:
        hand_down(parent)
    make(path)
    if unified:
        hand_down(path)
    trial = f"{path}/.trial"
    make(trial)
    try:
        _join_in_child(trial)
        given = _controllers(trial, unified=unified)
    finally:
        os.rmdir(trial)
    return GroupPlace(path, unified, memory="memory" in given, cpu="cpu" in given)


def hand_down(path: str) -> None:
    """Let groups below `path` have memory and CPU limits; where that is refused they have none, and `_best` sees it."""
    for controller in ("memory", "cpu"):
        if controller not in read_text(f"{path}/cgroup.subtree_control").split():
            try_to_write(f"{path}/cgroup.subtree_control", f"+{controller}")


def _controllers(path: str, *, unified: bool) -> frozenset[str]:
    if unified:
        return frozenset(read_text(f"{path}/cgroup.controllers").split()) & {"memory", "cpu"}
    files = {"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us"}
    return frozenset(name for name, file in files.items() if os.path.exists(f"{path}/{file}"))


def _join_in_child(group: str) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            write_text(f"{group}/cgroup.procs", "0")
        except OSError as error:
            os._exit(error.errno or 1)
        finally:
            os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, os.strerror(number), group)


def make(path: str) -> None:
    """Make a group; one that a predecessor left there is taken over."""
    with suppress(FileExistsError):
        os.mkdir(path)


def removed(path: str) -> bool:
    """Remove an empty group; False while something is in it."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _unescaped(point: str) -> str:
    return point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def read_text(path: str) -> str:
    """The file, or nothing: control files come and go with their groups."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write_text(path: str, content: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, content.encode())
    finally:
        os.close(fd)


def try_to_write(path: str, content: str) -> None:
    """For what is good to have: a file that is absent or refuses changes nothing."""
    with suppress(OSError):
        write_text(path, content)
