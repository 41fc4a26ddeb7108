"""Which rows of the specifications must have a test of their own, and which tests have them in their names.

`python -m tests.spec_rows` prints the list. Names are read from the files rather than collected, so that a row counts
wherever its test lives, and the list needs nothing to be imported.
"""

import re
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
_NAME = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
_ROW = re.compile(r"(?<=_)(?:dragon_\d+|voda_\d+|[pbrs]\d+)(?=_)")  # a test may answer for several: test_b1_voda_33_...

REQUIRED = (
    *(f"dragon_{number}" for number in (*range(1, 32), *range(36, 44), *range(46, 52))),
    *(f"voda_{number}" for number in (4, *range(7, 29), *range(30, 49))),
    *(f"p{number}" for number in (*range(1, 12), 15)),
    *("b1", "b2", "s1"),
    *("r1", "r2", "r3", "r4", "s4", "s6"),  # promises about the operator
    *("r5", "r6", "r7", "r8", "s5"),  # promises about training and its checkpoints
)


def rows_tested() -> dict[str, list[str]]:
    """Tests that name a row, as `file::test`, in order of the files."""
    found: dict[str, list[str]] = {}
    for path in sorted(_TESTS.rglob("test_*.py")):
        for match in _NAME.finditer(path.read_text(encoding="utf-8")):
            for row in _ROW.findall(match[1]):
                found.setdefault(row, []).append(f"{path.relative_to(_TESTS)}::{match[1]}")
    return found


def main() -> None:
    found = rows_tested()
    for row in REQUIRED:
        sys.stdout.write(f"{row}\n" + "".join(f"    {test}\n" for test in found.get(row, ["(none)"])))


if __name__ == "__main__":
    main()
