"""All benchmarks, one after the other: `python -m benchmarks --out DIR [--quick]`. Each writes a JSON file there."""

import argparse
import subprocess
import sys
from pathlib import Path

NAMES = (
    "startup",
    "simulator",
    "decision",
    "specon",
    "checkpoint_stall",
    "sdk_overhead",
    "reporting",
    "monitor",
    "migration",
    "local_engine",
    "kubernetes",
    "scaling",
)
HAS_SHORT_FORM = {"simulator", "decision", "specon", "checkpoint_stall", "reporting", "monitor"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--out", metavar="DIR", default="out", help="where the JSON files go")
    parser.add_argument("--quick", action="store_true", help="a few minutes instead of a quarter of an hour")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    worst = 0
    for name in NAMES:  # each in its own process: none runs in the memory that another left behind
        print(f"-- {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(out / f"{name}.json")]
        if arguments.quick and name in HAS_SHORT_FORM:
            command.append("--quick")
        worst = max(worst, subprocess.run(command, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
