"""`make cluster`: a cluster to try things on, for as long as this runs."""

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.cluster.binaries import NoBinaries, find_binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import USERS, install_crds
from tests.cluster.real_nodes import RealCluster, why_not

ABOUT = """\
A cluster is up: Kubernetes {version}, {nodes}. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes

Ctrl-C here ends all of it."""


def main() -> int:
    """Keeps a Kubernetes cluster running until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="with kubelets and containers; needs root")
    parser.add_argument("--fake", type=int, default=0, help="so many nodes by the API alone, instead; needs no root")
    parser.add_argument("--gpus", type=int, default=2, help="made-up GPUs of each node")
    options = parser.parse_args()
    try:
        binaries = find_binaries()
    except NoBinaries as error:
        return _refuse(str(error))
    trouble = None if options.fake else why_not(binaries)
    if trouble is not None:
        return _refuse(f"{trouble}. Without: python -m tests.cluster --fake {options.nodes}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="sterna-cluster-"))
    with suppress(KeyboardInterrupt), ExitStack() as running:
        running.callback(shutil.rmtree, directory, ignore_errors=True)
        if options.fake:
            plane = running.enter_context(ControlPlane(binaries, directory, users=USERS, node_lifecycle=False))
            running.enter_context(FakeNodes(plane.access())).add(options.fake, gpus=options.gpus)
        else:
            cluster = RealCluster(binaries, directory, nodes=options.nodes, gpus=options.gpus, users=USERS)
            plane = running.enter_context(cluster).control_plane
        install_crds(plane)
        version = ".".join(str(number) for number in binaries.version)
        nodes = f"{options.fake} fake nodes" if options.fake else f"{options.nodes} nodes"
        print(ABOUT.format(version=version, nodes=nodes, kubeconfig=plane.kubeconfig()), flush=True)  # noqa: T201
        signal.pause()
    return 0


def _refuse(why: str) -> int:
    print(why, file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
