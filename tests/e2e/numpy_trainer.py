"""Logistic regression in NumPy by gradient descent, with the SDK: a real loss curve, and nothing but CPU to pay for it.

    python numpy_trainer.py RATE TRACE

A high RATE is at its minimum soon, a low one falls steadily for a long time. TRACE gets a line `incarnation pid step
moment loss` for every step trained, the moment on the monotonic clock. It trains until it is told to stop.
"""

import os
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # one thread: what it lacks is CPU, not cores

import numpy as np  # noqa: E402

from sterna import training  # noqa: E402

SAMPLES, FEATURES, DECAY = 4000, 40, 0.05
REPEATS = 12  # passes over the data in one step, so that a step is mostly arithmetic


def main() -> None:
    rate, trace = float(sys.argv[1]), sys.argv[2]
    chance = np.random.default_rng(7)
    data = chance.normal(size=(SAMPLES, FEATURES))
    labels = (data @ chance.normal(size=FEATURES) + chance.normal(size=SAMPLES) > 0).astype(float)
    run = training.attach()
    model = {"weights": np.zeros(FEATURES)}
    run.register(model=model)
    run.restore()
    with open(trace, "a", encoding="utf-8", buffering=1) as lines:
        for _, _ in run.steps(10_000_000):
            for _ in range(REPEATS):
                guess = 1 / (1 + np.exp(-(data @ model["weights"])))
                slope = data.T @ (guess - labels) / SAMPLES + DECAY * model["weights"]
                model["weights"] -= rate / REPEATS * slope
            loss = float(-np.mean(labels * np.log(guess) + (1 - labels) * np.log(1 - guess)))
            run.report(loss=loss)
            lines.write(f"{run.incarnation} {os.getpid()} {run.step} {time.monotonic():.6f} {loss:.9f}\n")


if __name__ == "__main__":
    main()
