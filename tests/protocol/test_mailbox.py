"""Files in the mailbox are whole or absent, whoever reads or dies at whatever moment; wakes get through or are lost."""

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sterna.protocol import (
    Order,
    Orders,
    Status,
    WakeSocket,
    WorkerPhase,
    read_orders,
    read_status,
    wake_engine,
    wake_worker,
    write_orders,
    write_status,
)
from tests.needs import seeds


def test_messages_pass_through_the_mailbox(tmp_path):
    assert read_orders(tmp_path) is None
    assert read_status(tmp_path) is None
    write_orders(tmp_path, Orders(seq=3, order=Order.STOP, reason="drain", deadline_mono_s=12.5))
    write_status(tmp_path, Status(pid=7, phase=WorkerPhase.COMMITTED, ack=3))
    assert read_orders(tmp_path) == Orders(seq=3, order=Order.STOP, reason="drain", deadline_mono_s=12.5)
    assert read_status(tmp_path) == Status(pid=7, phase=WorkerPhase.COMMITTED, ack=3)
    assert {path.name for path in tmp_path.iterdir()} == {"orders.json", "status.json"}


def test_a_file_beyond_all_reason_is_not_loaded(tmp_path):
    (tmp_path / "status.json").write_bytes(b" " * (2 << 20))
    assert read_status(tmp_path) is None


def test_a_failed_write_leaves_the_old_message_and_no_litter(tmp_path):
    (tmp_path / "orders.json").mkdir()  # cannot be replaced by a file
    (tmp_path / "orders.json" / "inside").touch()
    with pytest.raises(OSError):
        write_orders(tmp_path, Orders(seq=1, order=Order.RUN))
    assert [path.name for path in tmp_path.iterdir()] == ["orders.json"]


WRITER = textwrap.dedent("""
    import itertools, sys
    from sterna.protocol import WorkerPhase, Status, write_status
    for step in itertools.count():
        write_status(sys.argv[1], Status(pid=1, phase=WorkerPhase.TRAINING, step=step, problem="x" * (step % 50_000)))
""")


@pytest.mark.parametrize("seed", seeds(3))
def test_a_reader_never_sees_half_a_message_and_neither_does_the_successor_of_a_killed_writer(tmp_path, seed):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], env=_environment())
    try:
        read, last = 0, 0
        while read < 100 + seed:
            assert writer.poll() is None
            status = read_status(tmp_path)
            if status is None:
                assert read == 0, "a message was there and then was not"
                continue
            assert status.step >= last
            assert status.problem == "x" * (status.step % 50_000)
            read, last = read + 1, status.step
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait(timeout=30)
    status = read_status(tmp_path)
    assert status is not None
    assert status.step >= last


@pytest.mark.parametrize("depth", [1, 20], ids=["a short path", "a path longer than the kernel takes"])
def test_wakes_arrive_in_both_directions(tmp_path, depth):
    home = tmp_path.joinpath(*["quite-deep"] * depth)
    home.mkdir(parents=True)
    engine, worker = WakeSocket(home / "engine.sock"), WakeSocket.of_worker(home)
    wake_engine(home / "engine.sock", "job-worker-0-abcde")
    wake_worker(home)
    assert select.select([engine], [], [], 10)[0] == [engine]
    assert engine.received() == ("job-worker-0-abcde",)
    assert select.select([worker], [], [], 10)[0] == [worker]
    assert worker.received() == ("",)
    assert worker.received() == ()
    engine.close()
    worker.close()


def test_waking_nobody_or_somebody_who_never_listens_neither_raises_nor_waits(tmp_path):
    wake_worker(tmp_path)
    wake_engine(tmp_path / "absent" / "engine.sock", "uid")
    worker = WakeSocket.of_worker(tmp_path)
    for _ in range(2_000):  # far beyond what a socket queues
        wake_worker(tmp_path)
    assert 0 < len(worker.received()) < 2_000
    worker.close()
    wake_worker(tmp_path)  # the path is still there, the listener is not


def test_a_new_process_takes_over_the_socket_of_a_dead_one(tmp_path):
    WakeSocket.of_worker(tmp_path).close()
    successor = WakeSocket.of_worker(tmp_path)
    wake_worker(tmp_path)
    assert successor.received() == ("",)
    successor.close()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
