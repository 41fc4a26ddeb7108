"""`python -m tests.mutants [WORDS]`: runs the tests that should notice each mutation of the list, or those that contain
WORDS, two at a time, and fails if one survives. Takes half an hour.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutating import CATALOGUE, Mutant, mutants, mutated_tree

PATIENCE_S = 1800.0


def main() -> int:
    words = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [mutant for mutant in mutants(CATALOGUE.read_text(encoding="utf-8")) if words in mutant.name]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        survivors = [mutant for mutant, killed in zip(chosen, pool.map(_is_killed, chosen), strict=True) if not killed]
    _tell(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations were noticed")
    for mutant in survivors:
        _tell(f"survived: {mutant.name}")
    return 1 if survivors else 0


def _is_killed(mutant: Mutant) -> bool:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        tree = mutated_tree(mutant, Path(place))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests]
        done = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    killed = done.returncode == 1  # 1: a test failed; anything else is no test that ran
    verdict = "noticed" if killed else f"SURVIVED (exit code {done.returncode})"
    _tell(f"{time.monotonic() - began_s:6.1f} s  {verdict}: {mutant.name}")
    return killed


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
