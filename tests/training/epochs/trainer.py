"""A program that trains for a few epochs and logs each; started as a process of its own, and killed.

    trainer.py LOG EPOCHS DIES_IN

Dies by SIGKILL in the middle of epoch DIES_IN, having written half of that epoch's row, as a writer without care would.
"""

import os
import signal
import sys

from sterna.training.epoch_log import EpochLog
from tests.waiting import paced


def main() -> None:
    path, epochs, dies_in = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    log = EpochLog(path, total_epochs=epochs, workers=2, local_batch_size=16)
    for epoch in log.epochs():
        for _ in range(4):
            paced(0.002)
            log.step()
        if epoch == dies_in:
            with open(path, "a") as file:
                file.write(f"{epoch},0.01,32")
            os.kill(os.getpid(), signal.SIGKILL)
        log.end(loss=1.0 / (epoch + 1), accuracy=epoch / 10)


if __name__ == "__main__":
    main()
