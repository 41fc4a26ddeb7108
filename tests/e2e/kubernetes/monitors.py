"""The shipped DaemonSet's pods on real nodes, with this machine's Python for an image.

They are put there by hand, as a scheduler would put them, because the cluster has none. Everything else of them is what
the chart renders.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from tests.cluster.host_python import host_mounts
from tests.cluster.images import HOST_IMAGE
from tests.cluster.requests import Body
from tests.deploy.rendering import objects, render, the_only
from tests.e2e.kubernetes.stage import SOURCE, Stage

PORT = 8081


class Monitors:
    def __init__(self, stage: Stage, *, door: str) -> None:
        """`door`: where the operator is, as a node sees it. Monitors are known there by their account's tokens."""
        self._stage = stage
        bodies = objects(render({"monitor.enabled": True, "monitor.logs": True, "monitor.port": PORT}))
        self._spec: Body = the_only(bodies, "DaemonSet")["spec"]["template"]["spec"]
        name = self._spec["serviceAccountName"]
        stage.api.create(f"/api/v1/namespaces/{stage.namespace}/serviceaccounts", {"metadata": {"name": name}})
        self.account = f"{stage.namespace}/{name}"
        host = host_mounts()
        (container,) = self._spec["containers"]
        args = [f"--scheduler={door}" if arg.startswith("--scheduler=") else arg for arg in container["args"]]
        container |= {
            "image": HOST_IMAGE,
            "imagePullPolicy": "Never",
            "command": [str(Path(sys.executable).with_name("sterna"))],
            "args": args,
            "volumeMounts": [*container["volumeMounts"], *host.mounts],
            "env": [*container["env"], {"name": "PYTHONPATH", "value": str(SOURCE)}],
        }
        self._spec["volumes"] = [*self._spec["volumes"], *host.volumes]

    def start(self, *nodes: str) -> None:
        """On these, and ready when this returns."""
        stage = self._stage
        for node in nodes:
            body = {"metadata": {"name": f"monitor-{node}"}, "spec": {**self._spec, "nodeName": node}}
            stage.api.create(f"/api/v1/namespaces/{stage.namespace}/pods", body)
        for node in nodes:
            stage.until(partial(self._is_ready, node), f"the monitor of {node} is ready")

    def kill(self, node: str) -> None:
        """As a power cut; its kubelet starts it again."""
        uid = self._pod(node)["metadata"]["uid"]
        pids = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_monitor_of(pid, uid)]
        assert pids, f"no monitor runs on {node}"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def restarts(self, node: str) -> int:
        statuses = self._pod(node)["status"].get("containerStatuses", [])
        return sum(int(status["restartCount"]) for status in statuses)

    def _pod(self, node: str) -> Body:
        return self._stage.api.get(f"/api/v1/namespaces/{self._stage.namespace}/pods/monitor-{node}")

    def _is_ready(self, node: str) -> bool:
        conditions = self._pod(node)["status"].get("conditions", [])
        return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)


def _is_monitor_of(pid: int, uid: str) -> bool:
    try:
        groups, command = Path(f"/proc/{pid}/cgroup").read_text(), Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return uid in groups and b"monitor" in command
