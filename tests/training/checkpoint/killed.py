"""The process that is killed while it saves: a server that forks children, each of which saves until it dies.

    python -m tests.training.checkpoint.killed DIRECTORY

For each line on its input (a seed) it starts a child and prints its process id; the child prints every step that it
was told is durable. When the child has died, the server prints `dead`.
"""

import os
import random
import sys
from pathlib import Path
from typing import Any

from sterna.training.checkpoint import CheckpointStore


def state(step: int) -> dict[str, Any]:
    """What was saved at a step can be computed again by whoever checks. Sizes from a few bytes to two megabytes."""
    chance = random.Random(step)
    big = chance.randbytes(int(2 ** chance.uniform(4, 21)))
    return {"step": step, "big": big, "small": {7: (chance.random(), None), None: {step}}}


def own(step: int) -> dict[str, Any]:
    return {"rng": random.Random(step).getstate()[1][:20]}


def save_until_killed(directory: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = CheckpointStore(directory, incarnation=1)
    newest = store.newest()
    step = 0
    if newest is not None:
        store.load(newest)
        step = newest.step
    while True:
        step += 1
        if chance.random() < 0.5:
            store.save(state(step), own(step), step=step, about={})
        else:
            store.begin_save(state(step), own(step), step=step, about={}).result(60)
        os.write(1, b"%d\n" % step)


def main() -> None:
    directory = Path(sys.argv[1])
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                save_until_killed(directory, int(line))
            finally:
                os._exit(1)  # by an exception: the parent sees that it died of something else
        os.write(1, b"pid %d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"dead %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
