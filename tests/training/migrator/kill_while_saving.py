"""Saves as fast as it can and is killed at a random moment, again and again. Run as a script by `test_killed.py`.

Prints a line of JSON for each round: what the killed process had said was saved, and what the next one found. torch is
imported once; each round is a fork.
"""

import json
import os
import random
import select
import signal
import sys
from pathlib import Path

import torch

from sterna.training.migrator.shim import Migrator


def main(directory: str, seed: str, rounds: str) -> None:
    torch.set_num_threads(1)
    chance = random.Random(int(seed))
    for _ in range(int(rounds)):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            train(Path(directory), tell)
        os.close(tell)
        os.read(told, 1)  # it has begun
        with os.fdopen(os.pidfd_open(child)) as life:
            select.select([life], [], [], chance.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged = 0
        with os.fdopen(told) as lines:
            for line in lines:
                if line.endswith("\n"):
                    acknowledged = int(line)
        sys.stdout.write(json.dumps({"saved": acknowledged, "found": look(Path(directory))}) + "\n")


def train(directory: Path, tell: int) -> None:
    """Goes on from where the last one was, and says after each save which step is durable."""
    tensors, counter, migrator = launched(directory)
    if migrator.resume:
        migrator.load_ckpt()
    os.write(tell, b" ")
    while True:
        counter["step"] += 1
        for tensor in tensors.values():
            tensor.fill_(counter["step"])
        migrator.save_ckpt()
        os.write(tell, b"%d\n" % counter["step"])


def look(directory: Path) -> dict[str, object]:
    """In a process of its own, which is killed as well: looking must not change what the next one finds."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        tensors, counter, migrator = launched(directory)
        resumed = migrator.resume
        if resumed:
            migrator.load_ckpt()
        values = sorted({float(value) for tensor in tensors.values() for value in (tensor.min(), tensor.max())})
        os.write(tell, json.dumps({"resumed": resumed, "step": counter["step"], "values": values}).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as answer:
        found = json.load(answer)
    os.waitpid(child, 0)
    return dict(found)


def launched(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, int], Migrator]:
    tensors = {f"t{number}": torch.zeros(50_000) for number in range(5)}
    counter = {"step": 0}
    migrator = Migrator(
        environment={
            "MIGRATION_CKPT_PATH": str(directory / "migration.pth"),
            "MIGRATION_SIGNAL_PATH": str(directory / "signal"),
        }
    )
    migrator.register("counter", counter)
    for key, tensor in tensors.items():
        migrator.register(key, tensor)
    return tensors, counter, migrator


if __name__ == "__main__":
    main(*sys.argv[1:])
