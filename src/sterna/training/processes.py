"""Whether a process of this machine is there, and whether it is still the same one."""

from pathlib import Path


def pid_started(pid: int) -> int:
    """When a process began, in ticks since boot: tells it from a later one with the same pid. 0: there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    state, started = fields[0], int(fields[19])
    return 0 if state in "ZX" else started  # a zombie trains no more
