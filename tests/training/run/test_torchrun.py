"""Elastic torchrun: members join and leave, its agents start all processes anew, and training goes on where it was."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
from tests.needs import needs
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_S = 240.0
# By default an agent of torchrun publishes its store only once; whoever joins in a later round waits for it in vain.
LATE_JOINERS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Agents:
    """Workers whose one process is torchrun; their training processes are its children and come and go."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[subprocess.Popen[bytes]] = []
        self.mailboxes: list[Path] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    def start(self) -> None:
        ordinal = len(self.processes)
        mailbox = self.home / f"worker-{ordinal}"
        mailbox.mkdir()
        environment = worker_environment(
            job="default/elastic",
            worker=f"elastic-worker-{ordinal}",
            rank=ordinal,
            world_size=ordinal + 1,
            incarnation=0,
            checkpoint_dir=self.home / "checkpoints",
            mailbox=mailbox,
            wake=self.home / "engine.sock",
        )
        kept = {name: value for name, value in os.environ.items() if name not in STERNA_VARIABLES}
        path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2:3", "--nproc-per-node=1"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._port}", "--rdzv-id=test"]
        command += ["--rdzv-conf=last_call_timeout=1,join_timeout=200", "--max-restarts=20", "--monitor-interval=0.2"]
        command += ["--local-addr=127.0.0.1", "-m", "tests.training.run.elastic_program"]
        with (mailbox / "log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    command,
                    env={**kept, **environment, "PYTHONPATH": path, **LATE_JOINERS},
                    stdout=log,
                    stderr=log,
                    cwd=REPOSITORY,
                )
            )
        self.mailboxes.append(mailbox)

    def order(self, seq: int, order: Order, *workers: int) -> None:
        for worker in workers:
            write_orders(self.mailboxes[worker], Orders(seq=seq, order=order))
            wake_worker(self.mailboxes[worker])

    def until(self, condition: Callable[[Status], bool], *workers: int) -> list[Status]:
        statuses: list[Status | None] = []

        def looked() -> bool:
            statuses[:] = [read_status(self.mailboxes[worker]) for worker in workers]
            return all(status is not None and condition(status) for status in statuses)

        def story() -> str:
            logs = "\n".join((mailbox / "log").read_text(errors="replace")[-4000:] for mailbox in self.mailboxes)
            return f"{statuses}\n{logs}"

        until(looked, patience_s=PATIENCE_S, every_s=0.02, story=story)
        return [status for status in statuses if status is not None]

    def launches(self, worker: int) -> list[Any]:
        return [json.loads(line) for line in (self.mailboxes[worker] / "launches").read_text().splitlines()]

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    needs("torch")
    made = Agents(tmp_path)
    yield made
    made.kill()


@pytest.mark.slow
def test_members_join_and_leave_torchrun_and_not_a_step_is_lost(agents):
    agents.start()
    agents.start()
    agents.until(lambda status: status.phase is WorkerPhase.TRAINING and status.step > 5, 0, 1)

    agents.order(1, Order.HOLD, 0, 1)  # everybody commits and stands still, so that joining costs nobody a step
    (grown_at,) = {status.step for status in agents.until(lambda status: status.ack == 1, 0, 1)}
    agents.start()
    agents.until(lambda status: status.phase is WorkerPhase.READY, 0, 1)  # new processes, on hold in restore()
    agents.order(2, Order.RUN, 0, 1)
    statuses = agents.until(
        lambda status: status.phase is WorkerPhase.TRAINING and status.world_size == 3 and status.step > grown_at + 5,
        0,
        1,
        2,
    )
    assert {status.restored_step for status in statuses} == {grown_at}
    begins = [agents.launches(worker)[-1] for worker in range(3)]
    assert {(each["world_size"], each["restored"]) for each in begins} == {(3, grown_at)}
    assert len({each["hash"] for each in begins}) == 1

    agents.order(3, Order.HOLD, 0, 1, 2)
    (shrunk_at,) = {status.step for status in agents.until(lambda status: status.ack == 3, 0, 1, 2)}
    agents.processes[2].send_signal(signal.SIGTERM)
    agents.processes[2].wait(60)
    agents.order(4, Order.RUN, 0, 1)  # the next step cannot complete without the third, so torchrun starts anew
    statuses = agents.until(
        lambda status: status.phase is WorkerPhase.TRAINING and status.world_size == 2 and status.step > shrunk_at + 5,
        0,
        1,
    )
    assert {status.restored_step for status in statuses} == {shrunk_at}
    assert {agents.launches(worker)[-1]["restored"] for worker in range(2)} == {shrunk_at}

    agents.order(5, Order.STOP, 0, 1)
    statuses = agents.until(lambda status: status.phase is WorkerPhase.COMMITTED and status.ack == 5, 0, 1)
    assert len({status.step for status in statuses}) == 1
    for worker in range(2):
        assert agents.processes[worker].wait(60) == 0
