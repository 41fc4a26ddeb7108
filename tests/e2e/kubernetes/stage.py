"""A real cluster with the operator as a process of its own, which a test may kill like any other.

It acts as a user who has the rights that deploy/ gives, and no others. Pods run this machine's Python and the project's
own files; `shared` is a directory that is the same on every node, as a volume would be.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.host_python import host_mounts
from tests.cluster.images import HOST_IMAGE
from tests.cluster.real_nodes import RealCluster
from tests.cluster.requests import Body, until
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import USER

TRAINERS = Path(__file__).parent
SOURCE = Path(__file__).parents[3] / "src"


class Stage(Lab):
    def __init__(self, cluster: RealCluster, namespace: str, shared: Path) -> None:
        super().__init__(cluster.control_plane, None, namespace)
        self.cluster = cluster
        self.shared = shared
        self._log = shared / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start_operator(self, *options: str) -> None:
        """Decides half a second apart, gives a silent node two seconds, and asks for no Lease: it is the only one."""
        command = [_program("sterna"), "operator", "--kubeconfig", str(self.plane.kubeconfig(USER))]
        command += ["--namespace", self.namespace, "--watch-namespace", self.namespace, "--rate-limit", "0.5s"]
        command += ["--node-lost-after", "2s", "--no-leader-elect", *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill_operator(self) -> None:
        """As a power cut: no signal handler, no last word."""
        assert self._process is not None
        assert self._process.poll() is None, self.story()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart_operator(self, *options: str) -> None:
        self.kill_operator()
        self.start_operator(*options)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pod in self.all_pods():
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.api.delete(path, {"gracePeriodSeconds": 0})
        super().close()

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the operator ended by itself\n{self._log.read_text()[-4000:]}")

    def template(self, container: str, *command: str, limits: dict[str, Any] | None = None, **spec: Any) -> Body:
        """A pod that runs `command` with this machine's programs."""
        host = host_mounts(writable=[self.shared])
        return {
            "spec": {
                "terminationGracePeriodSeconds": 0,
                **spec,
                "volumes": host.volumes,
                "containers": [
                    {
                        "name": container,
                        "image": HOST_IMAGE,
                        "imagePullPolicy": "Never",
                        "command": [*command],
                        "volumeMounts": host.mounts,
                        "env": [{"name": "PYTHONPATH", "value": str(SOURCE)}],
                        **({"resources": {"limits": limits}} if limits else {}),
                    }
                ],
            }
        }

    def put(self, body: Body) -> Body:
        return self.submit(yaml.safe_dump(body))[0]

    def log_of(self, pod: str) -> str:
        return self.plane.kubectl("-n", self.namespace, "logs", pod, check=False)

    def until_log(self, pod: str, words: str) -> str:
        until(lambda: words in self.log_of(pod), f"{pod} says {words!r}", story=self.story)
        return self.log_of(pod)

    def sterna(self, *words: str) -> str:
        """The command line against this cluster, as its administrator."""
        command = [_program("kubectl-sterna"), *words]
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig("admin"))}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def story(self) -> str:
        names = [str(pod["metadata"]["name"]) for pod in self.all_pods()]
        logs = "\n".join(f"== {name}\n{self.log_of(name)[-1500:]}" for name in names)
        operator = self._log.read_text()[-4000:] if self._log.exists() else ""
        return f"{super().story()}\n{logs}\n== operator\n{operator}"


def _program(name: str) -> str:
    """As it is installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def seen(log: str, key: str) -> list[int]:
    """The numbers after `key=` in a trainer's lines, in their order."""
    words = [word for line in log.splitlines() for word in line.split() if word.startswith(f"{key}=")]
    return [int(word.partition("=")[2]) for word in words]


def tf_config(pod: Body) -> dict[str, Any]:
    env = pod["spec"]["containers"][0]["env"]
    found: dict[str, Any] = json.loads(next(variable["value"] for variable in env if variable["name"] == "TF_CONFIG"))
    return found
