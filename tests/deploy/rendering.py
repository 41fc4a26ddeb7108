"""The chart as `helm template` renders it, and what is in a manifest.

text = render({"binding": "binding"}, kube_version="1.20.2")
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.helm import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "sterna"
MANIFEST = ROOT / "deploy" / "sterna.yaml"
CRDS = ROOT / "deploy" / "crds"
NAMESPACE = "sterna-system"

Body = dict[str, Any]


def render(
    values: Mapping[str, Any] | None = None,
    *,
    release: str = "sterna",
    namespace: str = NAMESPACE,
    kube_version: str = "1.32.0",
    tests: bool = False,  # with what `helm test` runs
    chart: Path = CHART,
) -> str:
    """What `helm template` prints. `values` are laid over those of the chart."""
    flags = [f"--namespace={namespace}", f"--kube-version={kube_version}", *settings(values or {})]
    flags += [] if tests else ["--skip-tests"]
    return helm("template", release, str(chart), *flags).out


def settings(values: Mapping[str, Any]) -> list[str]:
    """Values as flags, each named by its path: {"monitor.enabled": True}."""
    return [f"--set-json={path}={json.dumps(value)}" for path, value in values.items()]


def objects(text: str) -> list[Body]:
    """The documents of a manifest that are not empty."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [body for body in yaml.load_all(text, loader) if body]


def of_kind(bodies: list[Body], *kinds: str) -> list[Body]:
    return [body for body in bodies if body["kind"] in kinds]


def the_only(bodies: list[Body], kind: str) -> Body:
    (found,) = of_kind(bodies, kind)
    return found
