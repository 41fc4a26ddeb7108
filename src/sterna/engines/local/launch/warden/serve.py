"""The warden's own life: become a background process, take the lock, clean up after a predecessor, listen, leave.

It leaves when it has had neither processes nor clients for a while, when it is told to, and when its home is removed:
what runs then can never be found again, so it is ended first.
"""

import fcntl
import gc
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from sterna.engines.local.launch.warden import wire
from sterna.engines.local.launch.warden.event_loop import Loop, now_s
from sterna.engines.local.launch.warden.exit_journal import Journal
from sterna.engines.local.launch.warden.process_table import Processes
from sterna.engines.local.launch.warden.requests import Fields
from sterna.engines.local.launch.warden.sessions import Reply, Sessions
from sterna.engines.local.launch.warden.workers.cgroups import Cgroups, weigh
from sterna.engines.local.launch.warden.workers.child import Children
from sterna.engines.local.launch.warden.workers.hierarchies import find_places, removed
from sterna.engines.local.launch.warden.workers.leftovers import outlive, sweep
from sterna.engines.local.launch.warden.workers.spawn import PR_SET_CHILD_SUBREAPER, PR_SET_NAME, Inherited, prctl

LOCK_S = 20.0  # a predecessor's aftermath keeps the lock while it cleans up
LOG_BYTES_MAX = 2**20
LOOK_S = 5.0  # how often it looks whether it is still needed
TERM_GRACE_S = 5.0  # for its processes when the machine shuts down
READY = b"ready"


def main(arguments: list[str]) -> int:
    """Fork the warden; return once it listens, or say on standard error why it does not."""
    if not 1 <= len(arguments) <= 2:
        sys.stderr.write("usage: python -m sterna.engines.local.launch.warden HOME [SETTINGS]\n")
        return 2
    home = os.path.abspath(arguments[0])
    try:
        settings = dict(json.loads(arguments[1])) if len(arguments) == 2 else {}
    except (ValueError, TypeError) as error:
        sys.stderr.write(f"SETTINGS: expected a JSON object ({error})\n")
        return 2
    reading, writing = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.close(reading)
        _live(home, settings, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read()
    if said == READY:
        return 0
    sys.stderr.write(said.decode(errors="replace") or "it died at once; see the log in its directory\n")
    return 1


def _live(home: str, settings: dict[str, Any], ready_fd: int) -> NoReturn:
    """The warden, below the parent that will outlive it."""
    try:
        os.setsid()
        ground = _prepared(home, str(settings.get("cgroups", "auto")))
        if ground is not None:  # else a warden listens there already
            pid = os.fork()
            if pid != 0:
                os.close(ready_fd)
                outlive(pid, lock_fd=ground.lock_fd, token=ground.token, places=ground.cgroups.places)
            prctl(PR_SET_NAME, b"sterna-warden")
            warden = Warden(ground, idle_s=float(settings.get("idle_s", 60.0)))
    except (OSError, ValueError) as error:
        os.write(ready_fd, f"{home}: {error}\n".encode())
        os._exit(1)
    os.write(ready_fd, READY)
    os.close(ready_fd)
    if ground is not None:
        gc.freeze()  # what is here now stays: forked children should not copy it for the collector's sake
        warden.run()
    os._exit(0)


class Ground(NamedTuple):
    """What is settled before there is a warden."""

    home_fd: int
    lock_fd: int
    directory: str
    token: str  # names this home on this machine
    inherited: Inherited
    cgroups: Cgroups


def _prepared(home: str, cgroups: str) -> Ground | None:
    """The lock taken, and nothing of an earlier warden left; None when there is one already."""
    inherited = Inherited.taken()
    directory = f"{home}/{wire.DIRECTORY_NAME}"
    os.makedirs(directory, exist_ok=True)
    _write_to_log(f"{directory}/log")
    home_fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    lock_fd = _locked(f"{directory}/lock", home_fd)
    if lock_fd is None:
        return None
    found = os.fstat(home_fd)
    token = f"{found.st_dev:x}-{found.st_ino:x}"
    places, why_not = find_places(f"sterna-{token}", cgroups)
    for place in places:
        if place.cpu:  # all that runs below it together should weigh as much as the machine has cores
            weigh(place.path, 1000 * (os.cpu_count() or 1), unified=place.unified)
    stubborn = sweep(token, places)
    if stubborn:
        sys.stderr.write(f"of an earlier warden, not to be killed: {stubborn}\n")
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    return Ground(home_fd, lock_fd, directory, token, inherited, Cgroups(places, why_not))


class Warden:
    """The warden in its own process, from taking its home over until it leaves."""

    def __init__(self, ground: Ground, *, idle_s: float) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # not inherited
        self._ground = ground
        self._loop = Loop()
        self._processes = Processes(
            name=os.urandom(8).hex(),
            token=ground.token,
            children=Children(self._loop, ground.inherited),
            cgroups=ground.cgroups,
            journal=Journal(ground.directory),
        )
        self._idle_s = idle_s
        self._busy_s = now_s()  # when it last had something to do
        self._farewell: list[Reply] = []
        self._processes.load()
        self._loop.signals({signal.SIGCHLD: self._processes.children.reap, signal.SIGTERM: self._terminated})
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._sessions = Sessions(_listening(ground.home_fd), self._processes, leave=self._leave)
        self._loop.settle(self._leave_when_empty)
        self._look()

    def run(self) -> None:
        self._loop.run()
        with suppress(FileNotFoundError):  # it goes with the home
            os.unlink(wire.SOCKET_NAME, dir_fd=self._ground.home_fd)
        self._sessions.close()
        for place in self._ground.cgroups.places:
            removed(place.path)

    def _leave(self, request: Fields, reply: Reply) -> None:
        live = self._processes.live_ids
        if live and not request.flag("kill"):
            raise wire.Refused("conflict", f"{len(live)} processes run here ({', '.join(live[:5])}); stop them first")
        self._close(request.seconds("grace_s"))
        self._farewell.append(reply)

    def _terminated(self) -> None:
        self._close(TERM_GRACE_S)

    def _close(self, grace_s: float) -> None:
        self._processes.is_closing = True
        for process_id in self._processes.live_ids:
            self._processes.stop(process_id, grace_s)

    def _leave_when_empty(self) -> None:
        if self._processes.is_closing and not self._processes.live_ids:
            for reply in self._farewell:
                reply({})
            self._loop.leave()

    def _look(self) -> None:
        """Now and then: is there still a home, are there processes or clients?"""
        if not _is_at(f"{self._ground.directory}/lock", self._ground.lock_fd):
            self._close(TERM_GRACE_S)
        if not (self._processes.is_empty and self._sessions.is_empty):
            self._busy_s = now_s()
        elif now_s() - self._busy_s >= self._idle_s:
            self._processes.is_closing = True
        if os.fstat(2).st_size > LOG_BYTES_MAX:
            os.ftruncate(2, 0)
        self._loop.after(min(LOOK_S, max(0.05, self._idle_s / 4)), self._look)


def _locked(path: str, home_fd: int) -> int | None:
    """The lock of this home, or None when its holder listens. A dead warden's aftermath is waited for."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until_s = now_s() + LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _answers(home_fd):
                return None
            if now_s() > until_s:
                raise TimeoutError("another warden has the lock and does not answer") from None
            time.sleep(0.02)
        else:
            return fd


def _answers(home_fd: int) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(_socket_path(home_fd))
            return trial.recv(1) != b""
        except OSError:
            return False


def _listening(home_fd: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    path = _socket_path(home_fd)
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(256)
    return listener


def _socket_path(home_fd: int) -> str:
    """By way of the descriptor: a socket's path has 108 bytes, and a home may have more."""
    return f"/proc/self/fd/{home_fd}/{wire.SOCKET_NAME}"


def _is_at(path: str, fd: int) -> bool:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # a disk that does not answer is no reason to end anything
    return os.path.samestat(found, os.fstat(fd))


def _write_to_log(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((nothing, 0), (fd, 1), (fd, 2)):
        os.dup2(source, target)
    os.close(fd)
    os.close(nothing)
