"""The operator as a process of its own, under the rights that the chart gives it, which a storm kills."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.children import Child

SOURCE = Path(__file__).parents[2] / "src"


class OperatorProcess:
    def __init__(self, kubeconfig: Path, namespaces: Sequence[str], log: Path, *options: str) -> None:
        """It is the only one, so it asks for no Lease."""
        program = [str(Path(sys.executable).with_name("sterna")), "operator", "--kubeconfig", str(kubeconfig)]
        watched = [word for name in namespaces for word in ("--watch-namespace", name)]
        self._command = [*program, "--namespace", namespaces[0], *watched, "--no-leader-elect", *options]
        self._log = log
        self._child: Child | None = None
        self.lives = 0

    def start(self) -> None:
        self._child = Child("operator", self._command, self._log, {**os.environ, "PYTHONPATH": str(SOURCE)})
        self.lives += 1

    def kill(self) -> None:
        """As a power cut: no signal handler, no last message."""
        self.check()
        assert self._child is not None
        self._child.kill()

    def stop(self) -> None:
        if self._child is not None and self._child.running:
            self._child.kill()

    def check(self) -> None:
        """It never ends by itself."""
        assert self._child is not None
        self._child.require_running()

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""
