"""The engine's side, for tests: starts real processes with real mailboxes, gives orders, waits for what they say.

Processes are forked from a server that has already imported what they need. What a program prints goes to a file beside
its mailbox and into the message of a failure.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

from sterna.protocol import (
    STERNA_VARIABLES,
    Order,
    Orders,
    Status,
    WorkerPhase,
    read_status,
    wake_worker,
    worker_environment,
    write_orders,
)
from tests import waiting
from tests.training.forked import FORKING
from tests.waiting import paced

PATIENCE_S = 120.0  # nothing here takes a tenth of it on an idle machine

Program = Callable[..., Any]


@dataclass
class Gang:
    """All workers of one incarnation of a job."""

    all: ClassVar[list["Gang"]] = []  # of the present test, for whoever clears up after it

    home: Path  # holds checkpoints and mailboxes
    incarnation: int
    processes: list[ForkServerProcess] = field(default_factory=list)
    mailboxes: list[Path] = field(default_factory=list)
    environments: list[Mapping[str, str]] = field(default_factory=list)
    _seq: int = 0

    @classmethod
    def started(
        cls,
        home: Path,
        program: Program,
        *arguments: Any,
        ranks: int = 1,
        incarnation: int = 0,
        standby: bool = False,
        gang: bool = True,
        signals: bool = False,
        delays_s: Sequence[float] = (),
        also: Mapping[str, str] | None = None,
    ) -> "Gang":
        """`program(*arguments)` in every rank; what it returns is in `results()`."""
        made = cls(home, incarnation)
        cls.all.append(made)
        for rank in range(ranks):
            mailbox = home / f"i{incarnation}-r{rank}"
            mailbox.mkdir(parents=True)
            environment = worker_environment(
                job="default/test",
                worker=f"test-worker-{rank}-{incarnation}",
                rank=rank,
                world_size=ranks,
                incarnation=incarnation,
                checkpoint_dir=home / "checkpoints",
                mailbox=mailbox,
                wake=home / "engine.sock",
                standby=standby,
                gang=gang,
                signals=signals,
            )
            made.mailboxes.append(mailbox)
            made.environments.append({**environment, **(also or {})})
            delay_s = delays_s[rank] if delays_s else 0
            made.processes.append(made._process(rank, delay_s, program, arguments))
        return made

    def restart(self, rank: int, program: Program, *arguments: Any) -> None:
        """Another process in the place of one that is gone, with the same environment."""
        self.processes[rank] = self._process(rank, 0, program, arguments)

    def _process(self, rank: int, delay_s: float, program: Program, arguments: Sequence[Any]) -> ForkServerProcess:
        settings = (self.mailboxes[rank], dict(self.environments[rank]), delay_s, program, tuple(arguments))
        process = FORKING.Process(target=_run, args=settings)
        process.start()
        return process

    def order(self, order: Order, *, ranks: Sequence[int] | None = None) -> int:
        self._seq += 1
        for rank in ranks if ranks is not None else range(len(self.mailboxes)):
            write_orders(self.mailboxes[rank], Orders(seq=self._seq, order=order, reason="test"))
            wake_worker(self.mailboxes[rank])
        return self._seq

    def statuses(self) -> list[Status | None]:
        return [read_status(mailbox) for mailbox in self.mailboxes]

    def until(self, condition: Callable[[Status], bool], *, ranks: Sequence[int] | None = None) -> list[Status]:
        """Wait until `condition` holds for the status of every rank (or of `ranks`)."""
        wanted = list(ranks if ranks is not None else range(len(self.mailboxes)))
        found: list[Status] = []

        def looked() -> bool:
            ended = not any(self.processes[rank].is_alive() for rank in wanted)  # before what they said last is read
            found[:] = [status for rank in wanted if (status := read_status(self.mailboxes[rank])) is not None]
            holds = len(found) == len(wanted) and all(map(condition, found))
            assert holds or not ended, f"ended: {found}\n{self.output()}"
            return holds

        try:
            waiting.until(looked, patience_s=PATIENCE_S, every_s=0.005, story=lambda: f"{found}\n{self.output()}")
        except AssertionError:
            self.kill()
            raise
        return found

    def until_phase(self, phase: WorkerPhase) -> list[Status]:
        return self.until(lambda status: status.phase is phase)

    def until_acked(self, seq: int) -> list[Status]:
        return self.until(lambda status: status.ack >= seq)

    def results(self) -> list[Any]:
        """What each program returned, once all have ended well."""
        self.join()
        codes = [process.exitcode for process in self.processes]
        assert codes == [0] * len(codes), f"exit codes {codes}\n{self.output()}"
        return [eval((mailbox / "result").read_text()) for mailbox in self.mailboxes]

    def stopped(self) -> list[Any]:
        """Order them to stop, and wait for the end."""
        self.order(Order.STOP)
        return self.results()

    def join(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0.1))
        if any(process.is_alive() for process in self.processes):
            self.kill()
            raise AssertionError(f"did not end: {self.statuses()}\n{self.output()}")

    def kill(self, *, rank: int | None = None) -> None:
        for process in self.processes if rank is None else [self.processes[rank]]:
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
            process.join(PATIENCE_S)

    def output(self) -> str:
        return "\n".join(f"--- {mailbox.name}\n{_read(mailbox / 'log')}" for mailbox in self.mailboxes)


def _run(
    mailbox: Path, environment: Mapping[str, str], delay_s: float, program: Program, arguments: Sequence[Any]
) -> None:
    """In the new process."""
    with (mailbox / "log").open("a", buffering=1) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        for name in (*STERNA_VARIABLES, "RANK", "WORLD_SIZE", "LOCAL_RANK"):
            os.environ.pop(name, None)
        os.environ.update(environment)
        paced(delay_s)
        try:
            result = program(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        (mailbox / "result").write_text(repr(result))


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else "(nothing)"
