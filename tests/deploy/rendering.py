"""The chart, rendered by the program in deploy/render, which is built once for all tests.

text = render({"binding": "binding"}, kube_version="1.20.2")
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.needs import absent, needs_program

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "sterna"
MANIFEST = ROOT / "deploy" / "sterna.yaml"
CRDS = ROOT / "deploy" / "crds"
NAMESPACE = "sterna-system"
_SOURCE = ROOT / "deploy" / "render"

Body = dict[str, Any]


class RenderFailed(Exception):
    """What `helm install` would have complained about."""


def render(
    values: Mapping[str, Any] | None = None,
    *,
    release: str = "sterna",
    namespace: str = NAMESPACE,
    kube_version: str = "1.32.0",
    tests: bool = False,  # with what `helm test` runs
    notes: bool = False,  # what is said at the end, instead of the manifests
    chart: Path = CHART,
) -> str:
    """What `helm template` prints. `values` are laid over those of the chart."""
    settings = [f"--set={name}={json.dumps(value)}" for name, value in (values or {}).items()]
    flags = [f"--namespace={namespace}", f"--kube-version={kube_version}", *settings]
    flags += [] if tests else ["--skip-tests"]
    flags += ["--notes"] if notes else []
    done = subprocess.run([renderer(), *flags, release, chart], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RenderFailed(done.stderr)
    return done.stdout


def objects(text: str) -> list[Body]:
    """The documents of a manifest that are not empty."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [body for body in yaml.load_all(text, loader) if body]


def of_kind(bodies: list[Body], *kinds: str) -> list[Body]:
    return [body for body in bodies if body["kind"] in kinds]


def the_only(bodies: list[Body], kind: str) -> Body:
    (found,) = of_kind(bodies, kind)
    return found


@cache
def renderer() -> Path:
    """The program, built from what is in deploy/render now. Workers may do so at the same time: a rename is whole."""
    needs_program("go")
    sources = sorted([*_SOURCE.glob("*.go"), _SOURCE / "build.sh"])
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    program = ROOT / "out" / f"render-{digest}"
    if not program.exists():
        aside = program.with_name(f"{program.name}.{os.getpid()}")
        done = subprocess.run([_SOURCE / "build.sh", aside], capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0 and "cannot find package" in done.stderr:
            absent(f"deploy/render cannot be built, see its build.sh for the packages it needs: {done.stderr}")
        assert done.returncode == 0, done.stderr
        aside.rename(program)
    return program
