"""Pods without a cluster: real processes with the environment, the mailbox and the end that a pod's container has.

Nobody writes orders; SIGTERM is what they are told to stop by, and their last word is read from the file that the
kubelet would take for the termination message.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sterna.protocol import STERNA_VARIABLES, Status, read_status, worker_environment
from tests.training.forked import Forked
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[3]
TRAINERS = REPOSITORY / "tests" / "e2e" / "kubernetes"
CALLED = [sys.executable, "-u"]
FORKED = TRAINERS / "torch_trainer.py"  # takes seconds to import what it needs
Found = TypeVar("Found")
PATIENCE_S = 400.0  # nothing here takes a twentieth of it on an idle machine; importing torch does on a busy one


@dataclass
class Pod:
    mailbox: Path  # an emptyDir: its own, and gone with it
    process: subprocess.Popen[bytes] | Forked
    environment: Mapping[str, str]

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def said(self) -> str:
        return (self.mailbox.parent / "log").read_text(errors="replace")

    def status(self) -> Status | None:
        return read_status(self.mailbox)

    def last_word(self) -> Status:
        """As an operator reads it out of the pod's status."""
        message = (self.mailbox.parent / "termination-log").read_bytes()
        assert 0 < len(message) <= 4096, message
        status = Status.from_json(message)
        assert status is not None, message
        return status

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        return waited_for(lambda: self.process.poll(), self.said)


class Pods:
    """All that a test starts, over incarnations, with one volume for all of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.volume = home / "volume"
        self.started: list[Pod] = []

    def start(
        self,
        command: Sequence[str],
        *,
        ranks: int = 1,
        incarnation: int = 1,
        grace_s: float = 60.0,
        also: Mapping[str, str] | None = None,
        only: Sequence[int] | None = None,
    ) -> list[Pod]:
        """One incarnation of a gang; `only` some of its ranks."""
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        pods = []
        for rank in only if only is not None else range(ranks):
            room = self.home / f"i{incarnation}-r{rank}-{len(self.started)}"
            (room / "mailbox").mkdir(parents=True)
            (room / "termination-log").touch()
            environment = worker_environment(
                job="default/test",
                worker=f"test-worker-{rank}-{incarnation}",
                rank=rank,
                world_size=ranks,
                incarnation=incarnation,
                checkpoint_dir=self.volume,
                mailbox=room / "mailbox",
                signals=True,
                termination_log=room / "termination-log",
                grace_s=grace_s,
            )
            pods.append(self._run(command, room, {**environment, **meeting, **(also or {})}))
        return pods

    def again(self, pod: Pod, command: Sequence[str]) -> Pod:
        """Another container of the same pod: its mailbox is as the one before has left it."""
        return self._run(command, pod.mailbox.parent, pod.environment)

    def _run(self, command: Sequence[str], room: Path, environment: Mapping[str, str]) -> Pod:
        kept = {name: value for name, value in os.environ.items() if name not in STERNA_VARIABLES}
        paths = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]), "OMP_NUM_THREADS": "1"}
        process = _process(command, {**kept, **paths, **environment}, room / "log")
        self.started.append(Pod(room / "mailbox", process, environment))
        return self.started[-1]

    def trace(self) -> list[dict[str, str]]:
        """What trainers wrote down, each line as its fields."""
        path = self.volume / "trace.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(field.split("=", 1) for field in line.split()) for line in lines]

    def steps(self, *, rank: int, incarnation: int) -> list[int]:
        who = {"rank": str(rank), "incarnation": str(incarnation)}
        return [int(line["step"]) for line in self.trace() if "step" in line and who.items() <= line.items()]

    def until_step(self, number: int, *, rank: int = 0, incarnation: int = 1) -> None:
        def there() -> bool:
            return number in self.steps(rank=rank, incarnation=incarnation)

        waited_for(lambda: there() or None, lambda: "\n".join(pod.said() for pod in self.started))

    def kill(self) -> None:
        for pod in self.started:
            if pod.process.poll() is None:
                pod.process.kill()
            pod.process.wait(60)


def _process(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes] | Forked:
    if list(command[:3]) == [*CALLED, str(FORKED)]:
        return Forked(FORKED, command[3:], environment=environment, log=log, cwd=REPOSITORY)
    with log.open("ab") as said:
        return subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=REPOSITORY)


def trainer(name: str, *arguments: object) -> list[str]:
    return [*CALLED, str(TRAINERS / f"{name}_trainer.py"), *(str(argument) for argument in arguments)]


def waited_for(look: Callable[[], Found | None], about: Callable[[], str] = lambda: "") -> Found:
    found: list[Found] = []

    def looked() -> bool:
        found.extend(seen for seen in [look()] if seen is not None)  # an exit code of 0 is an answer
        return bool(found)

    until(looked, patience_s=PATIENCE_S, every_s=0.02, story=about)
    return found[0]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
