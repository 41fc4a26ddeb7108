"""A training program that needs no framework: its model is a number, and every step is written down.

    python toy_trainer.py STEPS STEP_S TRACE

TRACE gets a line `incarnation rank pid step` for every step trained, by which tests see what ran, how often, and
whether two processes ever did the same. The result depends on the number of steps alone.
"""

import os
import sys

from sterna import training
from tests.waiting import paced


def main() -> None:
    steps, step_s, trace = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    run = training.attach()
    model = {"value": 1}
    run.register(model=model)
    run.restore()
    with open(trace, "a", encoding="utf-8", buffering=1) as lines:
        for _, _ in run.steps(steps):
            model["value"] = (model["value"] * 6364136223846793005 + 1442695040888963407) % 2**64
            lines.write(f"{run.incarnation} {run.rank} {os.getpid()} {run.step}\n")
            paced(step_s / run.world_size)
            run.report(value=model["value"] % 1000)
    if not run.should_stop():
        if run.rank == 0:
            print(f"result {model['value']}", flush=True)
        run.finish()


if __name__ == "__main__":
    main()
