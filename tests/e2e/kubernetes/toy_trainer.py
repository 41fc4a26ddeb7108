"""A training program that starts in no time and needs NumPy alone: what a cluster is tried with.

    python toy_trainer.py [--steps 400] [--step-s 0.05] [--save-max-s 600] [--trace FILE] [--seed 0]

Every rank trains the same small regression on the same batch, drawn from the number of the step, so the result depends
on the number of steps alone, whoever was moved or resized in between, and no rank needs to reach another by network.
Each step is printed and appended to the trace (by default in the checkpoint directory, which all pods share):

    step=17 rank=0 world=3 incarnation=2 host=job-worker-0 pid=7

Runs by hand as well, where Sterna's calls do nothing.
"""

import argparse
import hashlib
import os
import socket
import time

import numpy as np

from sterna import training


def main() -> None:
    options = arguments(__doc__)
    run = training.attach(save_every_s=(2.0, options.save_max_s))
    weights = np.zeros(8)
    run.register(weights=weights)
    restored = run.restore()
    trace = Trace(run, options.trace)
    trace.say(f"began={0 if restored is None else restored.step}")
    for _, number in run.steps(options.steps):
        began_s = time.monotonic()
        chance = np.random.default_rng([options.seed, number])
        inputs = chance.normal(size=(32, 8))
        errors = inputs @ weights - inputs @ np.arange(8.0)
        weights -= 0.05 * inputs.T @ errors / len(inputs)
        trace.step(number + 1)
        run.report(loss=float((errors**2).mean()))
        time.sleep(max(0.0, began_s + options.step_s - time.monotonic()))
    if run.should_stop():
        trace.say(f"stopped={run.step}")
    else:
        trace.say(f"finished={run.step} hash={hashlib.sha256(weights.round(9).tobytes()).hexdigest()[:16]}")
        run.finish()


def arguments(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--step-s", type=float, default=0.05, help="seconds that a step takes at least")
    parser.add_argument("--save-max-s", type=float, default=600.0, help="longest interval between periodic checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trace", help="file for one line a step; by default trace.txt in the checkpoint directory")
    return parser.parse_args()


class Trace:
    """Lines for people and tests, on the console and in a file. One write a line, so that ranks do not mix theirs."""

    def __init__(self, run: training.Run, path: str | None) -> None:
        directory = os.environ.get("STERNA_CHECKPOINT_DIR")
        path = path or (os.path.join(directory, "trace.txt") if directory else None)
        self._who = f"rank={run.rank} world={run.world_size} incarnation={run.incarnation}"
        self._who += f" host={socket.gethostname()} pid={os.getpid()}"
        self._file = open(path, "ab", buffering=0) if path else None  # noqa: SIM115 (open as long as the process)

    def step(self, number: int) -> None:
        self.say(f"step={number}")

    def say(self, what: str) -> None:
        line = f"{what} {self._who}"
        print(line, flush=True)
        if self._file is not None:
            self._file.write(f"{line}\n".encode())


if __name__ == "__main__":
    main()
