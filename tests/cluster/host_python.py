"""What a pod needs to run this machine's Python, with everything that is installed for the tests.

Real nodes share the machine's files, so mounts of its own directories do for an image with all of that in it, and one
of a writable directory does for a volume that all nodes share.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.cluster.images import HOST_IMAGE
from tests.cluster.requests import Body

ROOT = Path(__file__).parents[2]


class HostMounts(NamedTuple):
    volumes: list[Body]  # for the pod
    mounts: list[Body]  # for each container


def host_mounts(*, writable: Iterable[Path] = ()) -> HostMounts:
    """/usr, Python and the project, read-only and under their own paths; `writable` directories besides."""
    wanted = [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix)]
    wanted += [ROOT / part for part in ("src", "examples", "tests")]
    chosen: list[Path] = []
    for path in wanted:
        if not any(path.is_relative_to(other) for other in chosen):
            chosen.append(path)
    everything = [(path, True) for path in chosen] + [(path.absolute(), False) for path in writable]
    volumes = [{"name": f"host-{at}", "hostPath": {"path": str(path)}} for at, (path, _) in enumerate(everything)]
    mounts = [
        {"name": f"host-{at}", "mountPath": str(path), "readOnly": fixed} for at, (path, fixed) in enumerate(everything)
    ]
    return HostMounts(volumes, mounts)


def python_pod(name: str, *arguments: str, node: str | None = None, writable: Iterable[Path] = ()) -> Body:
    """A pod that runs `python ARGUMENTS` once."""
    host = host_mounts(writable=writable)
    container = {
        "name": "main",
        "image": HOST_IMAGE,
        "imagePullPolicy": "Never",
        "command": [sys.executable, "-u", *arguments],
        "volumeMounts": host.mounts,
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": host.volumes,
        **({"nodeName": node} if node else {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
