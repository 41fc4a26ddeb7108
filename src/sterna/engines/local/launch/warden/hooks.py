"""One hook beside its worker: run once, bounded in time, its end kept with the worker's state."""

import os
import signal
from collections.abc import Callable

from sterna.engines.local.launch.warden.child import Child, Nursery, signal_name
from sterna.engines.local.launch.warden.logs import LogFile
from sterna.engines.local.launch.warden.loop import Timer
from sterna.engines.local.launch.warden.spawn import Program
from sterna.engines.local.launch.warden.values import Hook, HookEnded


def not_run(hook: Hook) -> HookEnded:
    return HookEnded(hook.name, None, None, False, f"{hook.name} hook: not run, its worker has ended")


class HookRun:
    def __init__(self, hook: Hook) -> None:
        self.ended: HookEnded | None = None
        self._hook = hook
        self._child: Child | None = None
        self._timed_out = False
        self._timer: Timer | None = None
        self._waiting: list[Callable[[HookEnded], None]] = []

    def begin(self, nursery: Nursery, program: Program, log: LogFile) -> None:
        try:
            self._child = nursery.bear(program, log)
        except OSError as error:
            self._end(None, None, f"{self._hook.name} hook: no process: {os.strerror(error.errno or 0)}")
            return
        self._child.on_end = self._reaped
        self._timer = nursery.loop.after(self._hook.timeout_s, self._out_of_time)

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
