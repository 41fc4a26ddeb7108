"""The first process of a real node: sets its namespaces up, starts its programs, and reaps whatever ends.

Run by `real_nodes` inside fresh namespaces with the path of a JSON file that says what to do, and ended by SIGKILL,
which takes everything in the node with it, as a power cut would. SIGUSR1 starts the kubelet again. Standard library
only, so that it runs by its path alone.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# the kubelet writes these, and they are the whole machine's: it gets files of its own instead
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main() -> None:
    node = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(node["directory"])
    _run("hostname", node["name"])
    _mount(node, directory)
    _join_network(node)
    _start(directory, "containerd", node["containerd"])
    _until_done(*node["ctr"], "version")
    for image in node["images"]:
        _run(*node["ctr"], "images", "import", image)
    signal.signal(signal.SIGUSR1, lambda *_: _start(directory, "kubelet", node["kubelet"]))
    _start(directory, "kubelet", node["kubelet"])
    _start(directory, "kube-proxy", node["proxy"])
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.2)


def _mount(node: dict[str, Any], directory: Path) -> None:
    """Disks of its own under the paths that are wired into the programs."""
    _run("mount", "--make-rshared", "/")
    for place in node["disks"]:
        disk = directory / "disks" / place.strip("/").replace("/", "-")
        disk.mkdir(parents=True, exist_ok=True)
        Path(place).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(disk), place)
        _run("mount", "--make-shared", place)
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    cni = Path("/etc/cni/net.d/10-pods.conflist")
    cni.parent.mkdir(exist_ok=True)
    cni.write_text(json.dumps(node["cni"]))
    for name, value in SYSCTLS.items():
        decoy = directory / "decoys" / name.replace("/", ".")
        decoy.parent.mkdir(exist_ok=True)
        decoy.write_text(value + "\n")
        _run("mount", "--bind", str(decoy), f"/proc/sys/{name}")
    for decoy_of, place in node["decoys"].items():
        _run("mount", "--bind", decoy_of, place)


def _until_done(*command: str) -> None:
    """Again and again until it succeeds. There is no way to be told."""
    while subprocess.run(command, capture_output=True, check=False).returncode:
        time.sleep(0.02)


def _join_network(node: dict[str, Any]) -> None:
    _until_done("ip", "link", "show", "eth0")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "addr", "add", node["address"], "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    for target, via in node["routes"].items():
        _run("ip", "route", "add", target, "via", via)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # this namespace's


def _start(directory: Path, name: str, command: list[str]) -> None:
    # or the kubelet looks for a cloud's metadata service for six seconds
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    with open(directory / f"{name}.log", "ab") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
