"""One training process in the warden's care, from launch to recorded end.

    starting -> running -> (stopping ->) leader dead -> what it left behind killed -> recorded -> told
        \\-> failed, with a reason

Where it is on that way is `state`. Recording the end on disk and telling clients is done by `process_table.py`.
"""

import signal
import time
from collections.abc import Callable
from typing import Protocol

from sterna.engines.local.launch.warden.event_loop import Timer, now_s
from sterna.engines.local.launch.warden.values import Exited, Hook, HookEnded, Launch, ProcessPhase, ProcessState
from sterna.engines.local.launch.warden.workers.cgroups import Cgroups, Group, in_mib, kill_each
from sterna.engines.local.launch.warden.workers.child import Child, Children, Ended, HookRun, not_run, signal_name
from sterna.engines.local.launch.warden.workers.leftovers import (
    MARK,
    Found,
    began_ticks,
    marked,
    of_worker,
    still_there,
)
from sterna.engines.local.launch.warden.workers.logs import LogFile
from sterna.engines.local.launch.warden.workers.spawn import Program

LEFTOVERS_S = 10.0  # how long an end waits for killed children; beyond that they hang in the kernel


class Surroundings(Protocol):
    """What a worker needs of the warden."""

    children: Children
    cgroups: Cgroups
    token: str

    def conclude(self, worker: "Worker") -> None: ...


class Worker:
    """One process from launch to end. `end` is what is to be recorded once it has ended."""

    def __init__(self, launch: Launch, processes: Surroundings) -> None:
        self.state = ProcessState(launch.id, ProcessPhase.STARTING, None, time.time(), now_s())
        self._launch = launch
        self._processes = processes
        self._mark = f"{processes.token}/{launch.id}"
        self._group = Group(launch.id, (), ())
        self._log: LogFile | None = None
        self._leader: Child | None = None
        self._found: list[Found] = []  # left behind, without a control group
        self._began_ticks = 0  # nothing of it is older
        self._hooks: dict[str, HookRun] = {}
        self._deadline_s: float | None = None  # when it will be killed; None: it was not asked to end
        self._deadline: Timer | None = None
        self._grace_s = 0.0
        self._termed = False
        self._killed = False
        self._left_until_s = 0.0
        self._left_wait_s = 0.005
        self._ended_at = (0.0, 0.0)  # wall and monotonic
        self.end = self.state  # what is to be recorded, once there is an end
        self._waiting: list[Callable[[ProcessState], None]] = []

    def begin(self) -> None:
        """Fork it. What cannot be started concludes as failed."""
        launch = self._launch
        try:
            self._log = LogFile(launch.log_path, bytes_max=launch.log_bytes_max, parts_max=launch.log_parts_max)
        except OSError as error:
            self._fail(f"log file {launch.log_path!r}: {error.strerror}")
            return
        self._group = self._processes.cgroups.group_for(launch)
        self._note(*self._group.notes)
        try:
            self._leader = self._processes.children.fork(self._program(launch.argv, launch.env), self._log)
        except OSError as error:
            self._fail(f"no process: {error.strerror}")
            return
        self._leader.on_running = self._runs
        self._leader.before_reaping = self._kill_all
        self._leader.on_end = self._leader_ended
        self.state = self.state._replace(pid=self._leader.pid)

    def when_started(self, call: Callable[[ProcessState], None]) -> None:
        """Once its program runs, or it is certain that it never will."""
        if self.state.phase is ProcessPhase.STARTING:
            self._waiting.append(call)
        else:
            call(self.state)

    def stop(self, grace_s: float, pre_stop: Hook | None, *, whole_group: bool) -> None:
        """Earliest deadline wins; the hook runs once; TERM is sent once."""
        if self._leader is None or self._leader.ended is not None or not self.state.alive:
            return
        if self.state.phase is ProcessPhase.RUNNING:
            self.state = self.state._replace(phase=ProcessPhase.STOPPING)
        deadline_s = now_s() + grace_s
        if self._deadline_s is None or deadline_s < self._deadline_s:
            self._deadline_s, self._grace_s = deadline_s, grace_s
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = self._processes.children.loop.after(grace_s, self._out_of_grace)
        if grace_s == 0:
            self._out_of_grace()
        elif pre_stop is not None and not self._termed:
            self.run_hook(pre_stop, lambda ended: self._term(whole_group=whole_group))
        else:
            self._term(whole_group=whole_group)

    def run_hook(self, hook: Hook, call: Callable[[HookEnded], None]) -> None:
        """Run a hook once for its name; `call` gets its end, also when it ran before."""
        run = self._hooks.get(hook.name)
        if run is None:
            if self._leader is None or self._leader.ended is not None or self._log is None:
                call(not_run(hook))
                return
            run = self._hooks[hook.name] = HookRun(hook)
            run.when_ended(self._hook_ended)
            env = self._launch.env if hook.env is None else hook.env
            run.begin(self._processes.children, self._program(hook.argv, env), self._log)
        run.when_ended(call)

    def recorded(self, state: ProcessState) -> None:
        """Its end is on disk: callers that still wait for its start get it."""
        self.state = state
        for call in self._waiting:
            call(state)
        self._waiting.clear()

    def _program(self, argv: tuple[str, ...], env: dict[str, str]) -> Program:
        launch = self._launch
        return Program(argv, {**env, MARK: self._mark}, launch.cwd, launch.cpus, launch.nice, self._group.join)

    def _runs(self) -> None:
        stopping = self._deadline_s is not None
        self.state = self.state._replace(phase=ProcessPhase.STOPPING if stopping else ProcessPhase.RUNNING)
        for call in self._waiting:
            call(self.state)
        self._waiting.clear()

    def _hook_ended(self, ended: HookEnded) -> None:
        self.state = self.state._replace(hooks=(*self.state.hooks, ended))

    def _term(self, *, whole_group: bool) -> None:
        if not self._termed and self._leader is not None:
            self._termed = True
            self._leader.signal(signal.SIGTERM, whole_group=whole_group)
            self._leader.signal(signal.SIGCONT)  # a suspended process would not handle TERM

    def _out_of_grace(self) -> None:
        if self._leader is not None and self._leader.ended is None:
            self._killed = True
            self._leader.signal(signal.SIGKILL)
            self._kill_all()

    def _kill_all(self) -> None:
        """Everything of it, by control group or else by what /proc tells. Needs the leader not to be reaped."""
        assert self._leader is not None
        for run in self._hooks.values():
            run.kill()
        if self._group.paths:
            self._group.kill()
        else:
            self._began_ticks = began_ticks(self._leader.pid)
            self._found = of_worker(self._leader.pid, self._mark, since_ticks=self._began_ticks)
            kill_each(found.pid for found in self._found)

    def _leader_ended(self) -> None:
        self._left_until_s = now_s() + LEFTOVERS_S
        self._ended_at = (time.time(), now_s())
        self._wait_for_leftovers()

    def _wait_for_leftovers(self) -> None:
        left = self._left()
        if (left or any(run.ended is None for run in self._hooks.values())) and now_s() < self._left_until_s:
            kill_each(left)
            self._processes.children.loop.after(self._left_wait_s, self._wait_for_leftovers)
            self._left_wait_s = min(
                0.5, self._left_wait_s * 2
            )  # polling faster does not help against what hangs in the kernel
            return
        if left:
            self._note(f"{len(left)} processes it left behind would not die: {left[:10]}")
        self._conclude()

    def _left(self) -> list[int]:
        if self._group.paths:
            return self._group.pids()
        fresh = marked(lambda mark: mark == self._mark, since_ticks=self._began_ticks)
        return sorted({*still_there(self._found), *fresh})

    def _conclude(self) -> None:
        assert self._leader is not None
        assert self._leader.ended is not None
        self._leader.drain()
        if self._leader.failure:
            self._fail(self._leader.failure)
            return
        oom = self._group.ran_out_of_memory() and self._leader.ended.code != 0
        self._finish(ProcessPhase.EXITED, exited=self._exited(self._leader.ended, oom=oom))

    def _exited(self, ended: Ended, *, oom: bool) -> Exited:
        wall_s, mono_s = self._ended_at
        return Exited(
            code=ended.code,
            signal=ended.signal,
            at_wall_s=wall_s,
            at_mono_s=mono_s,
            oom=oom,
            stopped=self._deadline_s is not None,
            killed=self._killed,
            cpu_s=ended.cpu_s,
            rss_max_bytes=ended.rss_max_bytes,
            message=self._how(ended, oom=oom),
        )

    def _how(self, ended: Ended, *, oom: bool) -> str:
        if oom and self._launch.memory_bytes is not None:
            return f"out of memory: limit {in_mib(self._launch.memory_bytes)}"
        if ended.signal is None:
            return f"exit code {ended.code}"
        if self._killed:
            return f"killed: it did not end within its grace of {self._grace_s:g} s"
        outside = ended.signal == signal.SIGKILL
        return f"killed by {signal_name(ended.signal)}" + (
            " from outside; did the machine run out of memory?" if outside else ""
        )

    def _fail(self, message: str) -> None:
        self._finish(ProcessPhase.FAILED, message=message)

    def _finish(self, phase: ProcessPhase, *, exited: Exited | None = None, message: str = "") -> None:
        if self._log is not None:
            if self._log.lost_bytes:
                self._note(f"{self._log.lost_bytes} bytes of its log were lost: {self._log.lost_why}")
            self._log.close()
        if not self._group.remove():  # the last of it is just being torn down
            self._processes.children.loop.after(1.0, self._group.remove)
        self.end = self.state._replace(phase=phase, exited=exited, message=message)
        if self._deadline is not None:
            self._deadline.cancel()
        self._processes.conclude(self)

    def _note(self, *notes: str) -> None:
        self.state = self.state._replace(notes=(*self.state.notes, *notes))
