"""A small training program under either of the migrator's interfaces, driven by files. Also run as a script.

    python toy_trainer.py --api a --log steps.jsonl --steps 200 [--step-s 0.02] [--parameters 100000] [--pause FILE]

Every line of the log is a JSON object with CLOCK_MONOTONIC: when the process began, had imported torch, had resumed,
ended each step, and ended, with a digest of all parameters. While the file given with --pause exists, it stands still
between two steps. What it computes depends on nothing but the step, so that runs can be compared bit by bit.
"""

import argparse
import hashlib
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tests.waiting import paced


def main() -> None:
    began_s = time.monotonic()
    given = _arguments()
    given.log.parent.mkdir(parents=True, exist_ok=True)
    with given.log.open("a", encoding="utf-8") as log:
        note(log, "began", at_s=began_s)
        import torch

        torch.set_num_threads(1)
        note(log, "imported")
        program = Program(given.parameters)
        step_done = join(given, program)
        note(log, "resumed", step=program.metrics["step"])
        while program.metrics["step"] < given.steps:
            if given.pause is not None and given.pause.exists():
                note(log, "paused", step=program.metrics["step"])
                signal.pause()  # whoever pauses it kills it
            program.train_a_step()
            note(log, "step", step=program.metrics["step"])
            step_done()
            if given.step_s:
                paced(given.step_s)
        note(log, "ended", step=program.metrics["step"], digest=program.digest(), best=program.metrics["best"])


class Program:
    """What is trained. Nothing in it knows of migrations."""

    def __init__(self, parameters: int) -> None:
        import torch

        torch.manual_seed(7)
        self._width = max(4, int((parameters / 2) ** 0.5))
        layers = (torch.nn.Linear(self._width, self._width), torch.nn.Tanh(), torch.nn.Linear(self._width, self._width))
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=10, gamma=0.9)
        self.metrics: dict[str, Any] = {"step": 0, "best": float("inf")}

    def train_a_step(self) -> None:
        import torch

        numbers = torch.Generator().manual_seed(self.metrics["step"])
        batch = torch.randn(8, self._width, generator=numbers)
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(batch), batch.roll(1, dims=1))
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.metrics["best"] = min(self.metrics["best"], float(loss.detach()))
        self.metrics["step"] += 1

    def digest(self) -> str:
        total = hashlib.sha256()
        for parameter in self.model.parameters():
            total.update(parameter.detach().numpy().tobytes())
        return total.hexdigest()


def join(given: argparse.Namespace, program: Program) -> Callable[[], None]:
    """Come under the migrator the way that was asked for. What comes back is called after each step."""
    from sterna.training import migrator

    if given.api == "b":
        for variable in (program.model, program.optimizer, program.scheduler, program.metrics):
            migrator.MigratableVariable(variable)
        return lambda: None
    for key in ("model", "optimizer", "scheduler", "metrics"):
        migrator.register(key, getattr(program, key))
    migrator.listening(given.interval)
    if migrator.resume:
        migrator.load_ckpt()
        sys.stdout.write(f"load migration ckpt from step {program.metrics['step']}\n")
    return migrator.step if given.api == "step" else lambda: None


def note(log: TextIO, event: str, *, at_s: float | None = None, **more: Any) -> None:
    log.write(json.dumps({"event": event, "at_s": time.monotonic() if at_s is None else at_s, **more}) + "\n")
    log.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=("a", "b", "step"), default="a")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--parameters", type=int, default=2_000)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--pause", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
