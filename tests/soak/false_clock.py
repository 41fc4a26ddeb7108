"""A wall clock that a test sets for some processes and not for the machine, by a small library that they load.

The monotonic clock stays what it is, as it does when somebody sets a real machine's clock.
"""

import mmap
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.needs import needs_program

SOURCE = Path(__file__).with_suffix(".c")


class FalseClock:
    def __init__(self, directory: Path) -> None:
        self._library = directory / "false_clock.so"
        self._file = directory / "clock"
        compiler = needs_program("gcc")
        subprocess.run(
            [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", self._library, SOURCE], check=True
        )
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), 8)

    @property
    def environment(self) -> Mapping[str, str]:
        """What processes need to be told by this clock."""
        return {"LD_PRELOAD": str(self._library), "STERNA_TEST_CLOCK": str(self._file)}

    def step_to(self, offset_s: float) -> None:
        """From now on the clock is so far from the true time."""
        self._shared[:] = struct.pack("=q", round(offset_s * 1e9))
