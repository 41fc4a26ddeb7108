"""Programs that live no longer than the test run that started them.

Every child is killed by the kernel when this process dies, however it dies (PR_SET_PDEATHSIG). The kernel means the
thread that forked, not the process, so one thread that lives as long as the process does all the forking.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# the parent may have died before the kernel was told of the wish; the shell starts later, and sees who its parent is
UNLESS_ORPHANED = '[ "$PPID" = "$0" ] && exec "$@"'
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forker")


class Child:
    """A running program, and the file that gets what it prints."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._process = _forker.submit(_start, command, log, env).result()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def require_running(self) -> None:
        assert self.running, f"{self.name} ended with {self._process.returncode}:\n{self.said()}"

    def stop(self, *, patience_s: float = 10.0) -> None:
        """In good order if it wants to, otherwise not."""
        self._process.terminate()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait(self, *, patience_s: float = 30.0) -> None:
        """For its end, which somebody else has brought about."""
        self._process.wait(patience_s)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


def _start(command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    with open(log, "ab") as out:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHANED, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C at a terminal is for the tests, which then end their children in order
        )
