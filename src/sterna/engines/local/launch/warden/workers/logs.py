"""From a worker's pipe to its log file: rotated, bounded in memory and on disk, readable at every moment.

Bytes are written as they come, so a line without an end is there too. A worker that floods is held to a rate: its
pipe fills and it waits, as it would for a slow terminal, instead of taking a core away from the others.
"""

import os
import stat

from sterna.engines.local.launch.warden.event_loop import Loop

CHUNK_BYTES = 64 * 1024
RATE_BYTES_S = 16 * 2**20  # a worker that writes more for long is broken
PAUSE_MIN_S = 0.02  # shorter rests are not worth a timer
DRAIN_BYTES_MAX = 2**20  # a pipe's content at its end; more is a writer that will not die


class LogFile:
    """One log and its older parts: `path`, `path.1`, ... A part ends with a line where it can."""

    def __init__(self, path: str, *, bytes_max: int, parts_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._parts_max = parts_max
        self._fd, self._bytes = self._opened(0)
        self.lost_bytes = 0
        self.lost_why = ""

    def write(self, data: bytes) -> None:
        """Never raises: a full disk loses lines, not the worker; how many is kept and said."""
        while data:
            room = max(0, self._bytes_max - self._bytes)
            part = data if len(data) <= room else data[: data.rfind(b"\n", 0, room) + 1]
            if not part and self._bytes == 0:
                part = data[:room]  # one line longer than a whole part
            if part and not self._append(part):
                self.lost_bytes += len(data)
                return
            data = data[len(part) :]
            if data:
                self._rotate()

    def close(self) -> None:
        os.close(self._fd)

    def _append(self, part: bytes) -> bool:
        view = memoryview(part)
        try:
            while view:
                written = os.write(self._fd, view)
                self._bytes += written
                view = view[written:]
        except OSError as error:
            self.lost_why = os.strerror(error.errno or 0)
            return False
        return True

    def _rotate(self) -> None:
        try:
            for number in range(self._parts_max - 1, 0, -1):
                if os.path.exists(f"{self._path}.{number}"):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            if self._parts_max > 0:
                os.replace(self._path, f"{self._path}.1")
            fresh, size = self._opened(os.O_TRUNC)
        except OSError as error:  # its directory is gone or full: begin the same file again rather than let it grow
            self.lost_bytes += self._bytes
            self.lost_why = os.strerror(error.errno or 0)
            os.ftruncate(self._fd, 0)
            self._bytes = 0
            return
        os.close(self._fd)
        self._fd, self._bytes = fresh, size

    def _opened(self, more: int) -> tuple[int, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags | more, 0o600)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):  # a pipe or terminal could make the warden wait
            os.close(fd)
            raise FileExistsError(17, "not a regular file", self._path)
        return fd, found.st_size


class LogPump:
    """Moves what arrives in a pipe to a log file, at a bounded rate, until the pipe ends or is drained."""

    def __init__(self, loop: Loop, fd: int, log: LogFile) -> None:
        self._loop = loop
        self._fd = fd
        self._log = log
        self._rest_s = 0.0
        self._listening = False
        self._open = True
        self._listen()

    def drain(self) -> None:
        """All writers are gone: take what is left, and close."""
        left_bytes = DRAIN_BYTES_MAX
        while self._open and left_bytes > 0:
            moved = self._move()
            left_bytes -= moved
            if moved == 0:
                self._close()
        self._close()

    def _listen(self) -> None:
        if self._open and not self._listening:
            self._loop.readable(self._fd, self._arrived)
            self._listening = True

    def _arrived(self) -> None:
        self._rest_s += self._move() / RATE_BYTES_S
        if self._open and self._rest_s >= PAUSE_MIN_S:
            self._unlisten()
            self._loop.after(self._rest_s, self._listen)
            self._rest_s = 0.0

    def _move(self) -> int:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self._log.write(data)
        else:
            self._close()
        return len(data)

    def _unlisten(self) -> None:
        if self._listening:
            self._loop.drop(self._fd)
            self._listening = False

    def _close(self) -> None:
        if self._open:
            self._unlisten()
            self._open = False
            os.close(self._fd)
