"""The postStart hook: notes when the container was started. `python -m sterna.training.migrator.poststart --log FILE`

It runs beside the trainer, in no particular order, and so touches none of its files.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sterna.training.migrator.console import date, log_to, plain


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="poststart", description="Note when the container was started.")
    parser.add_argument("--log", type=Path, help="write here what would go to the console")
    given = parser.parse_args(arguments)
    with log_to(given.log) as log:
        plain(f"start: {date()}", to=log)
    return 0  # always: a container whose postStart hook fails is killed


if __name__ == "__main__":
    sys.exit(main())
