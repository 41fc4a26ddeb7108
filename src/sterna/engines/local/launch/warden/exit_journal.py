"""What must survive the warden: which processes it started, and how each ended. Lines of JSON, appended and synced.

    {"began": state, "boot": id}   before the fork; not synced, because a machine that crashes takes the process along
    {"ended": state}               synced before clients are told
    {"forgot": id}

Read once, by the next warden: whatever began and has no end was lost with its predecessor. A torn last line, all that
a crash can leave, is cut off. Rewritten aside and renamed when it is read, and when it has grown too long.
"""

import json
import os
from typing import Any

from sterna.engines.local.launch.warden.values import ProcessPhase, ProcessState, state_from_wire, to_wire
from sterna.engines.local.launch.warden.workers.hierarchies import read_text

REWRITE_BYTES = 2**20


class Journal:
    """The journal in one directory. Every method that writes raises OSError."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/journal"
        self._boot = read_text("/proc/sys/kernel/random/boot_id").strip()
        self._fd = -1
        self._good_bytes = 0  # what was written whole; anything after it is cut off again
        self._rewrite_bytes = REWRITE_BYTES

    def load(self) -> dict[str, ProcessState]:
        """Every end not forgotten, those lost with an earlier warden among them; the journal is rewritten to match."""
        states: dict[str, ProcessState] = {}
        for line in read_text(self._path).splitlines():
            try:
                entry = json.loads(line)
                _replay(entry, states, same_boot=entry.get("boot") == self._boot)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # torn, or of another release
        self.rewrite(states)
        return states

    def began(self, state: ProcessState) -> None:
        """Before the fork. Not synced."""
        self._append([{"began": to_wire(state), "boot": self._boot}])

    def ended(self, states: list[ProcessState]) -> None:
        """Durable once this returns."""
        self._append([{"ended": to_wire(state)} for state in states])
        os.fdatasync(self._fd)

    def forgot(self, process_ids: list[str]) -> None:
        """Not synced: to remember an end once more than needed does no harm."""
        self._append([{"forgot": process_id} for process_id in process_ids])

    @property
    def is_long(self) -> bool:
        return self._good_bytes > self._rewrite_bytes

    def rewrite(self, states: dict[str, ProcessState]) -> None:
        """Start afresh with what is still to be known. Raises OSError with the old journal unharmed."""
        entries = [
            {"began": to_wire(state), "boot": self._boot} if state.alive else {"ended": to_wire(state)}
            for state in states.values()
        ]
        content = _lines(entries)
        fresh = os.open(f"{self._path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fresh, content)
            os.fdatasync(fresh)
            os.replace(f"{self._path}.new", self._path)
        except OSError:
            os.close(fresh)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._good_bytes = fresh, len(content)
        self._rewrite_bytes = max(REWRITE_BYTES, 2 * len(content))

    def _append(self, entries: list[dict[str, Any]]) -> None:
        content = _lines(entries)
        try:
            _write_all(self._fd, content)
        except OSError:
            os.ftruncate(self._fd, self._good_bytes)
            raise
        self._good_bytes += len(content)


def _replay(entry: dict[str, Any], states: dict[str, ProcessState], *, same_boot: bool) -> None:
    if "began" in entry:
        state = state_from_wire(entry["began"])
        why = "the warden that ran it died, and it with it" if same_boot else "the machine was restarted"
        states[state.id] = state._replace(phase=ProcessPhase.LOST, message=why)
    elif "ended" in entry:
        state = state_from_wire(entry["ended"])
        states[state.id] = state
    else:
        states.pop(entry["forgot"], None)


def _lines(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n" for entry in entries)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
