"""Whether a directory lies on a file system that several machines share, whose caches then stand between them."""

import re
from pathlib import Path

_OF_ONE_MACHINE = re.compile(r"ext[234]|xfs|btrfs|zfs|f2fs|jfs|bcachefs|overlay|tmpfs|ramfs|vfat|exfat")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def shared_between_machines(path: Path, mounts: str | None = None) -> bool:
    """True for NFS, Ceph and the like, and for whatever is not known to be of one machine. `mounts` as in mountinfo."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return False  # not Linux: a laptop
    place = str(path.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts in one place the later one is on top
            best, kind = point, after.split(" ")[0]
    return bool(kind) and _OF_ONE_MACHINE.fullmatch(kind) is None
