"""Which pods are on this node, without asking the cluster: what the kubelet left in two directories.

`<log root>/<namespace>_<name>_<uid>/` names every pod that has run a container here, and the tree of control groups
has a group for each pod that runs now. The uid ties them together.
"""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from sterna.monitor.watched import Watched

_DIRECTORY = re.compile(r"([a-z0-9-]+)_([a-z0-9.-]+)_([0-9a-f-]{32,36})")


class Pattern(NamedTuple):
    """For pods whose namespace/name is like `pods` (`*` for anything), what to find in their logs."""

    pods: str
    expression: str


class Surroundings:
    def __init__(self, *, log_root: Path | None, patterns: tuple[Pattern, ...] = ()) -> None:
        self._log_root = log_root
        self._patterns = patterns

    def pods(self) -> dict[str, tuple[str, Path]] | None:
        """By namespace/name: uid and log directory. None: there is no such directory to tell."""
        if self._log_root is None:
            return None
        try:
            names = os.listdir(self._log_root)
        except OSError:
            return None
        found: dict[str, tuple[str, Path]] = {}
        for match in filter(None, map(_DIRECTORY.fullmatch, sorted(names))):
            pod, path = f"{match[1]}/{match[2]}", self._log_root / match[0]
            if pod not in found or _age(path) > _age(found[pod][1]):  # a name that came back has two for a while
                found[pod] = (match[3], path)
        return found

    def watched(self, groups: Mapping[str, Path], follow: Mapping[str, str]) -> list[Watched]:
        """What to look at. `groups`: control groups by uid; `follow`: patterns that the scheduler asks for, by pod."""
        return [
            Watched(pod, cgroup=groups.get(uid), log=path, pattern=follow.get(pod) or self._pattern_of(pod))
            for pod, (uid, path) in sorted((self.pods() or {}).items())
        ]

    def _pattern_of(self, pod: str) -> str | None:
        return next((pattern.expression for pattern in self._patterns if fnmatchcase(pod, pattern.pods)), None)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
