"""Is the trainer that wrote a state still there? Told by its pid where that can be seen, else by its heartbeat."""

import os
import socket
import time
from pathlib import Path

from sterna.training.migrator.exchange import TrainerState

_SILENCE_S = 10.0  # the heartbeat comes every second or so; a save of a large model may hold it up for a while


def pid_started(pid: int) -> int:
    """When a process began, in ticks since boot: tells it from a later one with the same pid. 0: there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    state, started = fields[0], int(fields[19])
    return 0 if state in "ZX" else started  # a zombie trains no more


class Liveness:
    """One observer's view of a trainer, over time. A clock of another machine is never compared with ours."""

    def __init__(self, heartbeat: Path) -> None:
        self._heartbeat = heartbeat
        self._seen: tuple[int, float] | None = None  # its last change, and when we noticed

    def gone(self, state: TrainerState) -> bool:
        if state.host == socket.gethostname() and Path("/proc/self/stat").exists():
            return pid_started(state.pid) != state.pid_started
        return self._silent()

    def _silent(self) -> bool:
        try:
            beat = os.stat(self._heartbeat).st_mtime_ns
        except OSError:
            return True
        now_s = time.monotonic()
        if self._seen is None or self._seen[0] != beat:
            self._seen = (beat, now_s)
        return now_s - self._seen[1] > _SILENCE_S
