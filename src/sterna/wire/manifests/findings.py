"""What a reading of manifests brings up: problems, warnings, and what only a cluster could do. With paths.

A path is kept in its parts until it is shown, because follow-up problems are told by it: where `replicas` cannot be
read, nothing is said about a minimum that is above it.
"""

import re
from collections.abc import Sequence

from sterna.wire.problems import Problem

Path = tuple[str | int, ...]

PROBLEMS_MAX = 200  # more would not help the author

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Findings:
    """Of one document; each begins with the document's name, unless it stands alone.

    Read `for_pods` it must do without words that only the process runner understands.
    """

    def __init__(self, document: str, *, for_pods: bool = False) -> None:
        self.for_pods = for_pods
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.aside: list[str] = []  # what the process runner leaves out, and Kubernetes does
        self._before = f"{document}: " if document else ""
        self._unread: list[Path] = []

    def unread(self, path: Path, value: object, expected: str) -> None:
        """Something has not the shape it should have, so what follows from it is unknown."""
        if len(self.problems) < PROBLEMS_MAX:
            self.wrong(path, value, expected)
            self._unread.append(path)

    def wrong(self, path: Path, value: object, expected: str, *, given: Sequence[Path] = ()) -> None:
        """Something that can be read and will not do. `given` are the places it was compared with."""
        follows = any(_touch(mine, theirs) for mine in (path, *given) for theirs in self._unread)
        if not follows and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(f"{self._before}{shown(path) or 'all of it'}", value, expected))

    def warn(self, path: Path, text: str) -> None:
        self.warnings.append(f"{self._before}{shown(path)}: {text}")

    def set_aside(self, path: Path, text: str) -> None:
        self.aside.append(f"{self._before}{shown(path)}: {text}")


def shown(path: Path) -> str:
    """`spec.containers[0].resources.limits["nvidia.com/gpu"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _PLAIN.fullmatch(part) else f'["{part[:80]}"]'
    return text.removeprefix(".")


def _touch(one: Path, other: Path) -> bool:
    """Does one of them contain the other?"""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
