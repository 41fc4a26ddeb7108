"""A training program with a real loss curve, whose steps need a processor: two of them on one node slow each other.

    python growth_trainer.py --problem squares|absolute --until FILE

`squares` fits by least squares, which goes fast at first and then hardly at all. `absolute` fits by least absolute
errors with steps of one length from far away, which makes the same progress at every step for a long time. It trains
until the file is there; each step is written down with the moment it ended, by a clock that all of this machine share:

    step=17 at_us=123456789 rank=0 world=1 incarnation=1 host=done-worker-0 pid=7
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from sterna import training
from tests.e2e.kubernetes.toy_trainer import Trace

STEPS_MAX = 100_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", choices=("squares", "absolute"), required=True)
    parser.add_argument("--until", type=Path, required=True)
    options = parser.parse_args()
    run = training.attach(save_every_s=(2.0, 600.0))
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(8000, 64))
    wanted = inputs @ chance.normal(size=64) * 12.0
    weights = np.zeros(64)
    run.register(weights=weights)
    restored = run.restore()
    trace = Trace(run, None)
    trace.say(f"began={0 if restored is None else restored.step} at_us={now_us()}")
    ended = False
    for _, number in run.steps(STEPS_MAX):
        errors = inputs @ weights - wanted
        if options.problem == "squares":
            weights -= 0.02 * (inputs.T @ errors) / len(errors)
            loss = float((errors**2).mean())
        else:
            slope = inputs.T @ np.sign(errors)
            weights -= 0.01 * slope / np.linalg.norm(slope)
            loss = float(np.abs(errors).mean())
        for _ in range(60):  # what a larger model would take
            inputs @ weights
        trace.say(f"step={number + 1} at_us={now_us()}")
        run.report(loss=loss)
        if ended := options.until.exists():
            break
    if ended:
        trace.say(f"finished={run.step} at_us={now_us()}")
        run.finish()
    else:
        trace.say(f"stopped={run.step} at_us={now_us()}")


def now_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
