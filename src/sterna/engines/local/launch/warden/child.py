"""One forked child, a worker's leader or a hook: whether its program runs, what it writes, how it ended.

Knows nothing of phases, limits or deadlines: that is a charge's business.
"""

import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from sterna.engines.local.launch.warden.logs import LogFile, LogPump
from sterna.engines.local.launch.warden.loop import Loop
from sterna.engines.local.launch.warden.spawn import Inherited, Program, failure_message, fork_into

EXEC_S = 30.0  # to become its program; longer means a directory that does not answer


class Ended(NamedTuple):
    code: int | None
    signal: int | None
    cpu_s: float
    rss_max_bytes: int


class Nursery:
    """All children by pid. Each is reaped here, and so is whatever they leave for us to adopt."""

    def __init__(self, loop: Loop, inherited: Inherited) -> None:
        self.loop = loop
        self.inherited = inherited
        self._children: dict[int, Child] = {}

    def bear(self, program: Program, log: LogFile) -> "Child":
        child = Child(self, program, log)
        self._children[child.pid] = child
        return child

    def reap(self) -> None:
        """Look, act, and only then reap: until then a dead leader's number means its session and nothing else."""
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None:
                return
            child = self._children.pop(dead.si_pid, None)
            if child is not None:
                child.before_reaping()
            _, status, usage = os.wait4(dead.si_pid, 0)
            if child is not None:
                code = os.waitstatus_to_exitcode(status)
                cpu_s = usage.ru_utime + usage.ru_stime
                rss_bytes = usage.ru_maxrss * 1024
                child.reaped(Ended(None, -code, cpu_s, rss_bytes) if code < 0 else Ended(code, None, cpu_s, rss_bytes))


class Child:
    def __init__(self, nursery: Nursery, program: Program, log: LogFile) -> None:
        self._program = program
        self._loop = nursery.loop
        self.pid, output_fd, self._report_fd = fork_into(program, nursery.inherited)
        self.running = False
        self.failure = ""  # why its program never ran
        self.ended: Ended | None = None
        self.on_running: Callable[[], None] = _nothing
        self.before_reaping: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self._pump = LogPump(self._loop, output_fd, log)
        self._loop.readable(self._report_fd, self._reported)
        self._overdue_timer = self._loop.after(EXEC_S, self._overdue)

    def signal(self, number: int, *, whole_group: bool = True) -> bool:
        """False when it has ended. Before that its number cannot be anybody else's: we have not reaped it."""
        if self.ended is not None:
            return False
        try:
            os.killpg(self.pid, number) if whole_group else os.kill(self.pid, number)
        except ProcessLookupError:  # not yet a group of its own
            os.kill(self.pid, number)
        except PermissionError:  # it became somebody else, as a set-user-id program
            return False
        return True

    def reaped(self, ended: Ended) -> None:
        self._reported()
        self.ended = ended
        self.on_end()

    def drain(self) -> None:
        """Take what is left of its output; call it when all its processes are gone."""
        self._pump.drain()

    def _reported(self) -> None:
        if self._report_fd < 0:
            return
        try:
            report = os.read(self._report_fd, 4096)
        except BlockingIOError:
            return
        self._overdue_timer.cancel()
        self._loop.drop(self._report_fd)
        os.close(self._report_fd)
        self._report_fd = -1
        if report:
            self.failure = self.failure or failure_message(report, self._program)
        else:
            self.running = True
            self.on_running()

    def _overdue(self) -> None:
        if self._report_fd >= 0:
            self.failure = f"its program did not start within {EXEC_S:g} s; does {self._program.cwd!r} answer?"
            self.signal(signal.SIGKILL)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has none
        return f"signal {number}"


def _nothing() -> None:
    """Nobody waits for it yet."""
