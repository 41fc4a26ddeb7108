"""How long it takes until anything happens: importing the nouns, and asking the command line for help.

    python -m benchmarks.startup [--json FILE]

Wall time of a fresh process, the best of several: what a user waits for.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 7
LIMITS_MS = {"import sterna.model": 150.0, "sterna --help": 300.0}
COMMANDS = {
    "import sterna.model": [sys.executable, "-c", "import sterna.model"],
    "sterna --help": [str(Path(sys.executable).with_name("sterna")), "--help"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the times there as well")
    arguments = parser.parse_args()
    rows: list[dict[str, str | float]] = []
    for name, limit_ms in LIMITS_MS.items():
        took_ms = best_ms(name)
        rows.append({"what": name, "best_ms": took_ms, "limit_ms": limit_ms, "of_limit": took_ms / limit_ms})
        print(f"{name:22}{took_ms:7.0f} ms, {took_ms / limit_ms:.2f} of its limit of {limit_ms:.0f} ms")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    return 0


def best_ms(name: str) -> float:
    taken_s: list[float] = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        subprocess.run(COMMANDS[name], check=True, stdout=subprocess.DEVNULL)
        taken_s.append(time.perf_counter() - began_s)
    return min(taken_s) * 1000


if __name__ == "__main__":
    sys.exit(main())
