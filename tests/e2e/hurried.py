"""Runs a training program that keeps its pace until FILE is there, and then trains as fast as it can.

    python hurried.py FILE PROGRAM ARGUMENT...

The examples have a `--pace`, so that they are still training when a test moves them for the last time. What is left to
train after that needs no pace: the test creates FILE, and every later `time.sleep` of the program is a short one.
"""

import runpy
import sys
import time
from pathlib import Path
from typing import SupportsIndex

SHORT_S = 0.02  # loops that ask for something again and again still leave the CPU to others


def main() -> None:
    hurry, program = Path(sys.argv[1]), Path(sys.argv[2])
    unhurried = time.sleep

    def paced(seconds: float | SupportsIndex) -> None:
        unhurried(min(float(seconds), SHORT_S) if hurry.exists() else seconds)

    time.sleep = paced
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = str(program.parent)  # as if the program had been called
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
