"""One forked child, a worker's leader or a hook: whether its program runs, what it writes, how it ended.

A hook runs once beside its worker, bounded in time. Phases and limits are not here: those are a worker's.
"""

import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from sterna.engines.local.launch.warden.event_loop import Loop, Timer
from sterna.engines.local.launch.warden.values import Hook, HookEnded
from sterna.engines.local.launch.warden.workers.logs import LogFile, LogPump
from sterna.engines.local.launch.warden.workers.spawn import Inherited, Program, failure_message, fork_into

EXEC_S = 30.0  # to become its program; longer means a directory that does not answer


class Ended(NamedTuple):
    """How a child ended, and what it used."""

    code: int | None
    signal: int | None
    cpu_s: float
    rss_max_bytes: int


class Children:
    """All children by pid. Each is reaped here, and so is whatever they leave for us to adopt."""

    def __init__(self, loop: Loop, inherited: Inherited) -> None:
        self.loop = loop
        self.inherited = inherited
        self._by_pid: dict[int, Child] = {}

    def fork(self, program: Program, log: LogFile) -> "Child":
        """A child that becomes `program`, writing to `log`. Raises OSError."""
        child = Child(self, program, log)
        self._by_pid[child.pid] = child
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
            child = self._by_pid.pop(dead.si_pid, None)
            if child is not None:
                child.before_reaping()
            _, status, usage = os.wait4(dead.si_pid, 0)
            if child is not None:
                code = os.waitstatus_to_exitcode(status)
                cpu_s = usage.ru_utime + usage.ru_stime
                rss_bytes = usage.ru_maxrss * 1024
                child.reaped(Ended(None, -code, cpu_s, rss_bytes) if code < 0 else Ended(code, None, cpu_s, rss_bytes))


class Child:
    """Callbacks may be set after it is made: nothing is called before the loop goes on."""

    def __init__(self, children: Children, program: Program, log: LogFile) -> None:
        self._program = program
        self._loop = children.loop
        self.pid, output_fd, self._report_fd = fork_into(program, children.inherited)
        self.running = False
        self.failure = ""  # why its program never ran
        self.ended: Ended | None = None
        self.on_running: Callable[[], None] = _nothing
        self.before_reaping: Callable[[], None] = _nothing
        self.on_end: Callable[[], None] = _nothing
        self._pump = LogPump(self._loop, output_fd, log)
        self._loop.readable(self._report_fd, self._reported)
        self._overdue_timer = self._loop.after(EXEC_S, self._overdue)

    def signal(self, number: int, *, whole_group: bool = True) -> None:
        """Nothing once it has ended. Before that its number belongs to no other process: it is not reaped yet."""
        if self.ended is not None:
            return
        try:
            os.killpg(self.pid, number) if whole_group else os.kill(self.pid, number)
        except ProcessLookupError:  # not yet a group of its own
            os.kill(self.pid, number)
        except PermissionError:  # it runs as another user by now, as a set-user-id program does
            return

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


def not_run(hook: Hook) -> HookEnded:
    return HookEnded(hook.name, None, None, False, f"{hook.name} hook: not run, its worker has ended")


class HookRun:
    """One hook of a worker, run once."""

    def __init__(self, hook: Hook) -> None:
        self.ended: HookEnded | None = None
        self._hook = hook
        self._child: Child | None = None
        self._timed_out = False
        self._timer: Timer | None = None
        self._waiting: list[Callable[[HookEnded], None]] = []

    def begin(self, children: Children, program: Program, log: LogFile) -> None:
        try:
            self._child = children.fork(program, log)
        except OSError as error:
            self._end(None, None, f"{self._hook.name} hook: no process: {os.strerror(error.errno or 0)}")
            return
        self._child.on_end = self._reaped
        self._timer = children.loop.after(self._hook.timeout_s, self._out_of_time)

    def when_ended(self, call: Callable[[HookEnded], None]) -> None:
        if self.ended is not None:
            call(self.ended)
        else:
            self._waiting.append(call)

    def kill(self) -> None:
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    def _out_of_time(self) -> None:
        self._timed_out = True
        self.kill()

    def _reaped(self) -> None:
        assert self._child is not None
        assert self._child.ended is not None
        self._child.drain()  # what its own children still write is not waited for
        code, number = self._child.ended.code, self._child.ended.signal
        name = f"{self._hook.name} hook"
        if self._child.failure:
            self._end(None, None, f"{name}: {self._child.failure}")
        elif self._timed_out:
            self._end(code, number, f"{name}: killed, it took longer than {self._hook.timeout_s:g} s")
        elif number is not None:
            self._end(code, number, f"{name}: killed by {signal_name(number)}")
        else:
            self._end(code, number, f"{name}: exit code {code}" if code else "")

    def _end(self, code: int | None, number: int | None, message: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.ended = HookEnded(self._hook.name, code, number, self._timed_out, message)
        for call in self._waiting:
            call(self.ended)
        self._waiting.clear()


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has none
        return f"signal {number}"


def _nothing() -> None:
    """No callback is set yet."""
