"""A cluster whose nodes run containers: kubelet, containerd and runc, each node in namespaces of its own.

with RealCluster(find_binaries(), directory, nodes=3, gpus=2) as cluster:
    cluster.control_plane.kubectl("run", ...)
    cluster.kill("node2")

Pods reach the API server and the test process at `cluster.address`, and the test process reaches pods at theirs. Files
of this machine are the same on every node. Needs root. The GPUs are numbers: nothing is behind them.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster import cgroups
from tests.cluster.binaries import Binaries
from tests.cluster.children import Child
from tests.cluster.control_plane import ControlPlane
from tests.cluster.dns import ServiceDns
from tests.cluster.images import build_images
from tests.cluster.network import Network
from tests.cluster.node_files import (
    DISKS,
    PLUGINS,
    SOCKET,
    containerd_config,
    kubelet_config,
    kubelet_flags,
    pod_network,
    proxy_flags,
    write_hardware,
)
from tests.cluster.requests import ApiError, Body, until

INIT = Path(__file__).with_name("node_init.py")
NAMESPACES = ("--mount", "--uts", "--net", "--pid", "--ipc")
PROGRAMS = ("containerd", "ctr", "runc", "ip", "iptables", "unshare", "mount", "hostname", "gcc")


def why_not(binaries: Binaries) -> str | None:
    """What keeps this machine from having real nodes; None if nothing does."""
    if os.geteuid() != 0:
        return "real nodes need root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [program for program in ("kubelet", "kube-proxy") if not binaries.has(program)]
    missing += [] if Path(PLUGINS).is_dir() else [PLUGINS]
    if missing:
        return f"real nodes need {', '.join(missing)}"
    if not cgroups.usable():
        return "real nodes need cgroups that can be written to"
    return None


class RealCluster:
    """node1 to nodeN, a control plane, service DNS. Several may run at once on a machine."""

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        *,
        nodes: int = 3,
        gpus: int = 0,  # per node
        cpus: int = 16,  # what each node says it has; the machine's are shared by all
        memory_gib: int = 64,
        users: dict[str, tuple[str, ...]] | None = None,
        audit: bool = False,
    ) -> None:
        self.names = tuple(f"node{number}" for number in range(1, nodes + 1))
        self._binaries = binaries
        self._directory = directory.absolute()
        self._gpus, self._cpus, self._memory_gib = gpus, cpus, memory_gib
        self._network = Network()
        self.address = self._network.address
        self._cgroup = f"sterna-cluster-{self._network.index}"
        kubelets = {f"system:node:{name}": ("system:nodes",) for name in self.names}
        self.control_plane = ControlPlane(
            binaries,
            self._directory / "control-plane",
            address=self.address,
            users={**(users or {}), **kubelets},
            audit=audit,
        )
        self._children: dict[str, Child] = {}
        self._heartbeats: dict[str, str] = {}  # the last of a kubelet that has since been started anew
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.callback(self._network.down)
            self._network.up()
            cgroups.remove(self._cgroup)  # a dead cluster's
            opening.callback(cgroups.remove, self._cgroup)
            opening.enter_context(self.control_plane)
            opening.enter_context(ServiceDns(self.control_plane.access(), self.address))
            opening.callback(self._kill_all)
            self._images = build_images(self._directory / "images")
            for name in self.names:
                self.start(name)
            self.until_ready(*self.names)
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    # -- what may happen to a node

    def start(self, name: str) -> None:
        """Switches a node on. Its disk is as it was; `until_ready` waits for the rest."""
        self._note_heartbeat(name)
        directory = self._directory / name
        (directory / "disks").mkdir(parents=True, exist_ok=True)
        cgroups.make(f"{self._cgroup}/{name}")
        task = self._write_files(name, directory)
        command = ["unshare", *NAMESPACES, "--fork", "--kill-child=SIGKILL", "--mount-proc", "--propagation", "private"]
        child = Child(name, [*command, sys.executable, INIT, task], directory / "init.log")
        self._children[name] = child
        self._network.plug(self._number(name), child.pid)

    def kill(self, name: str) -> None:
        """A power cut: when this returns, everything on the node is gone but its disk."""
        init = self._init(name)
        if init is not None:
            os.kill(init, signal.SIGKILL)
        self._children.pop(name).wait()

    def stop_kubelet(self, name: str) -> None:
        """The kubelet dies; the containers run on."""
        kubelets = [pid for pid in _children_of(self._init(name)) if _program(pid) == "kubelet"]
        assert kubelets, f"there is no kubelet on {name}"
        for pid in kubelets:
            os.kill(pid, signal.SIGKILL)

    def start_kubelet(self, name: str) -> None:
        """It forgets GPUs that no plugin has told it of; `until_ready` gives them back."""
        self._note_heartbeat(name)
        init = self._init(name)
        assert init is not None, f"{name} is switched off"
        os.kill(init, signal.SIGUSR1)

    def partition(self, name: str) -> None:
        """Nobody reaches the node, and it reaches nobody; everything there runs on."""
        self._network.switch(self._number(name), on=False)

    def heal(self, name: str) -> None:
        self._network.switch(self._number(name), on=True)

    def limit_cpu(self, name: str, cpus: float | None) -> None:
        """All pods of a node together get no more than so many of this machine's processors. None: no limit."""
        cgroups.limit_cpu(f"{self._cgroup}/{name}", cpus)

    def until_ready(self, *names: str) -> None:
        """Ready as seen by whoever places pods: no taint is left, and what GPUs it was given are there."""
        for name in names:
            until(partial(self._is_ready, name), f"{name} is ready", story=partial(self.said, name))

    def until_not_ready(self, *names: str) -> None:
        for name in names:
            until(partial(self._is_not_ready, name), f"{name} is not ready")

    def said(self, name: str) -> str:
        """Ends of its logs, for a test that failed."""
        logs = sorted((self._directory / name).glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    # -- how

    def _write_files(self, name: str, directory: Path) -> Path:
        """What `node_init` reads, and what the programs do that it starts."""
        number, network, version = self._number(name), self._network, self._binaries.version
        plane, address = self.control_plane, network.node_address(self._number(name))
        (directory / "containerd.toml").write_text(containerd_config())
        (directory / "resolv.conf").write_text(f"nameserver {self.address}\n")
        kubelet = kubelet_config(
            address=address,
            dns=self.address,
            cgroup=f"{self._cgroup}/{name}",
            ca_file=plane.ca_file,
            resolv_conf=directory / "resolv.conf",
            version=version,
        )
        (directory / "kubelet.json").write_text(json.dumps(kubelet, indent=1))
        others = [other for other in range(1, len(self.names) + 1) if other != number]
        task = {
            "name": name,
            "directory": str(directory),
            "disks": DISKS,
            "decoys": write_hardware(directory, cpus=self._cpus, memory_gib=self._memory_gib),
            "cni": pod_network(network.pods_of(number)),
            "address": f"{address}/{network.mask}",
            "routes": {
                "default": self.address,
                **{network.pods_of(other): network.node_address(other) for other in others},
            },
            "images": [str(image) for image in self._images],
            "ctr": ["ctr", "-a", SOCKET, "-n", "k8s.io"],
            "containerd": ["containerd", "-c", str(directory / "containerd.toml")],
            "kubelet": [
                self._binaries.path("kubelet"),
                f"--config={directory / 'kubelet.json'}",
                f"--kubeconfig={plane.kubeconfig(f'system:node:{name}')}",
                f"--hostname-override={name}",
                f"--node-ip={address}",
                *kubelet_flags(version),
            ],
            "proxy": [
                self._binaries.path("kube-proxy"),
                f"--kubeconfig={plane.kubeconfig('system:kube-proxy')}",
                f"--hostname-override={name}",
                *proxy_flags(),
            ],
        }
        path = directory / "task.json"
        path.write_text(json.dumps(task, indent=1))
        return path

    def _is_ready(self, name: str) -> bool:
        self._children[name].require_running()
        node = self._node(name)
        ready = _ready(node)
        if ready["status"] != "True" or ready["lastHeartbeatTime"] == self._heartbeats.get(name):
            return False
        if any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", [])):
            return False
        if self._gpus and node["status"]["allocatable"].get("nvidia.com/gpu") != str(self._gpus):
            gpus = {"nvidia.com/gpu": str(self._gpus)}
            status = {"status": {"capacity": gpus, "allocatable": gpus}}
            self.control_plane.api().patch(f"/api/v1/nodes/{name}/status", status)
            return False
        return True

    def _is_not_ready(self, name: str) -> bool:
        return bool(_ready(self._node(name))["status"] != "True")

    def _note_heartbeat(self, name: str) -> None:
        with suppress(ApiError):  # no such node yet
            self._heartbeats[name] = _ready(self._node(name))["lastHeartbeatTime"]

    def _node(self, name: str) -> Body:
        return self.control_plane.api().get(f"/api/v1/nodes/{name}")

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1

    def _init(self, name: str) -> int | None:
        """The node's first process, by the number that it has out here."""
        return next(iter(_children_of(self._children[name].pid)), None)

    def _kill_all(self) -> None:
        for name in [*self._children]:
            self.kill(name)


def _ready(node: Body) -> Body:
    conditions: list[Body] = node["status"].get("conditions", [])
    unknown = {"status": "Unknown", "lastHeartbeatTime": ""}
    return next((each for each in conditions if each["type"] == "Ready"), unknown)


def _children_of(pid: int | None) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
