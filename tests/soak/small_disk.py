"""A file system of a few megabytes that a test may fill and empty again. Needs root."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.needs import absent, needs_program

_CHUNK = bytes(1 << 16)


class SmallDisk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self) -> None:
        """Until not one byte more fits."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (len(_CHUNK), 1):
                with suppress(OSError):
                    while filler.write(_CHUNK[:size]):
                        pass

    def clear(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(where: Path, *, mib: int) -> Iterator[SmallDisk]:
    """Mounted at `where` until the end of the block."""
    needs_program("mount")
    if os.geteuid() != 0:
        absent("a file system of its own needs root")
    where.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "sterna-small-disk", where],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        absent(f"no file system can be mounted here: {mounted.stderr.strip() or os.strerror(errno.EPERM)}")
    try:
        yield SmallDisk(where)
    finally:
        subprocess.run(["umount", "--lazy", where], check=True)
