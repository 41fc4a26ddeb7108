"""A worker is killed with SIGKILL at random moments of its saves, hundreds of times, in one and the same directory.

Each time the newest complete generation loads, holds bit for bit what was saved at its step, and is at least as new as
the last one the worker was told was durable. STERNA_KILLS says how often (200 if it says nothing).
"""

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

from sterna.training.checkpoint import CheckpointStore
from tests.training.checkpoint.killed import own, state
from tests.training.checkpoint.trees import alike

KILLS = int(os.environ.get("STERNA_KILLS") or 200)


class Victim:
    """A child of the server, from its first line to its last."""

    def __init__(self, server: "subprocess.Popen[str]", seed: int) -> None:
        assert server.stdin is not None
        self._server = server
        server.stdin.write(f"{seed}\n")
        server.stdin.flush()
        self.durable: list[int] = []
        self._pid = int(self._line().removeprefix("pid "))

    def saves(self, count: int) -> None:
        """Wait until it has saved so many times."""
        for _ in range(count):
            self.durable.append(int(self._line()))

    def lives(self, seconds: float) -> None:
        """For so long, unless it ends by itself."""
        with os.fdopen(os.pidfd_open(self._pid)) as life:
            select.select([life], [], [], seconds)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        while not (line := self._line()).startswith("dead"):
            self.durable.append(int(line))
        assert line == f"dead {-signal.SIGKILL}", f"it died of something else: {line}"

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline().strip()
        assert line, "the server is gone"
        return line


def require_newest(directory: Path, *, at_least: int, what: str) -> int:
    store = CheckpointStore(directory, incarnation=2)  # another incarnation: looking must not change anything
    newest = store.newest()
    if newest is None:
        assert at_least == 0, what
        return 0
    assert newest.step >= at_least, f"{what}: step {newest.step} although {at_least} was durable"
    loaded = store.load(newest)
    assert alike(loaded.shared, state(newest.step)), what
    assert alike(loaded.own, own(newest.step)), what
    assert all("no manifest" in skipped.why for skipped in store.skipped), f"{what}: {store.skipped}"
    return newest.step


def test_voda_45_r6_a_worker_killed_at_any_moment_of_a_save_leaves_the_newest_complete_generation_loadable(quick_path):
    directory = quick_path / "checkpoints"
    command = [sys.executable, "-m", "tests.training.checkpoint.killed", str(directory)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment) as server:
        try:
            durable = torn = 0
            for seed in range(KILLS):
                chance = random.Random(seed)
                victim = Victim(server, seed)
                if chance.random() < 0.5:
                    victim.saves(chance.randrange(3))
                victim.lives(chance.choice([0.0, 0.002, 0.01, 0.03]) * chance.random())  # when to kill is up to chance
                victim.kill()
                torn += len(list(directory.glob("gen-*/.*.part"))) > 0
                durable = max([durable, *victim.durable])
                durable = require_newest(directory, at_least=durable, what=f"seed {seed}")
            assert durable > KILLS / 4  # they did save
            assert torn > KILLS / 50  # and were killed while they did
            assert len(list(directory.iterdir())) < 12  # what the dead left behind does not pile up
        finally:
            server.kill()
