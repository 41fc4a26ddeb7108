"""What `benchmarks.migration` moves: a PyTorch model of two square layers, under either way of being moved.

    python migration_trainer.py WIDTH sterna
    python migration_trainer.py WIDTH migrator PLACE

With `migrator`, the end of every step is written to PLACE/steps-PID by the clock that all processes share.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

WIDTH = int(sys.argv[1])
ENDLESS = 1_000_000


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    if sys.argv[2] == "sterna":
        under_sterna(model, optimizer)
    else:
        under_migrator(model, optimizer, Path(sys.argv[3]))


def under_sterna(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    from sterna import training

    run = training.attach()
    run.register(model=model, optimizer=optimizer)
    run.restore()
    for _ in run.steps(ENDLESS):
        learn(model, optimizer)
    run.finish()


def under_migrator(model: nn.Module, optimizer: torch.optim.Optimizer, place: Path) -> None:
    from sterna.training import migrator

    migrator.register("model", model)
    migrator.register("optimizer", optimizer)
    migrator.listening(interval=1)
    if migrator.resume:
        migrator.load_ckpt()
    with open(place / f"steps-{os.getpid()}", "w", encoding="utf-8", buffering=1) as trace:
        while True:
            learn(model, optimizer)
            trace.write(f"{time.monotonic()}\n")


def learn(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    batch = torch.randn(4, WIDTH)
    optimizer.zero_grad(set_to_none=True)
    nn.functional.mse_loss(model(batch), batch).backward()
    optimizer.step()


if __name__ == "__main__":
    main()
