"""A real control plane: etcd, kube-apiserver, kube-controller-manager and, where wanted, kube-scheduler.

with ControlPlane(find_binaries(), directory) as plane:
    plane.kubectl("get", "namespaces")
    plane.api("alice").get("/api/v1/nodes")  # RBAC is on: ApiError 403

It is up after about eight seconds, most of them the API server's, and ends with the process that started it.
"""

import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.cluster.binaries import Binaries
from tests.cluster.children import Child
from tests.cluster.components import AUDIT_POLICY, apiserver_options, controller_options
from tests.cluster.credentials import Credentials, write_kubeconfig
from tests.cluster.pki import Authority, signing_key
from tests.cluster.ports import free_port
from tests.cluster.requests import Access, Api, until

OWN_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")


class ControlPlane:
    """Everything a cluster has but nodes, in `directory`."""

    def __init__(
        self,
        binaries: Binaries,
        directory: Path,
        *,
        address: str = "127.0.0.1",  # where the API server listens
        users: Mapping[str, Sequence[str]] | None = None,  # further users with tokens, and the groups of each
        node_lifecycle: bool = True,  # False: nobody watches whether nodes live, so fake ones need no leases
        scheduler: bool = False,
        audit: bool = False,  # note what everybody but admin and the cluster's own parts asks for
        apiserver_options: Sequence[str] = (),
        controller_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory.absolute()
        self.address = address
        self.port = free_port()
        self.server = f"https://{address}:{self.port}"
        self._binaries = binaries
        self._lifecycle = node_lifecycle
        self._with_scheduler = scheduler
        self.has_controllers = binaries.has("kube-controller-manager")
        self._audit = audit
        self._apiserver_options = tuple(apiserver_options)
        self._controller_options = tuple(controller_options)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(self.directory)
        self._credentials = Credentials(self.directory, users or {})
        self._etcd_url = f"http://127.0.0.1:{free_port()}"
        self._etcd_directory = _etcd_directory(self.directory, self.port)
        self._children: dict[str, Child] = {}
        self._apiserver_command: list[str] = []

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        try:
            self._authority.establish()
            self._start_etcd()
            self._apiserver_command = self._apiserver()
            self.start_apiserver()
            if self.has_controllers:
                self._start_controllers()
            if self._with_scheduler:
                self.start_scheduler()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Etcd goes last: an API server without it does not end when asked to."""
        for child in reversed(self._children.values()):
            child.stop()
        self._children.clear()
        shutil.rmtree(self._etcd_directory, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Back after `stop_apiserver`, under the same address and with the same certificates."""
        self._spawn("kube-apiserver", self._apiserver_command)
        self._await("kube-apiserver", lambda: self.api().text("/readyz") == "ok")

    def stop_apiserver(self) -> None:
        self._children["kube-apiserver"].kill()  # in good order it would wait for every watch to end

    def restart_apiserver(self) -> None:
        self.stop_apiserver()
        self.start_apiserver()

    def start_scheduler(self) -> None:
        """The kube-scheduler, with its client's limits out of the way."""
        name = "kube-scheduler"
        options = ["--kube-api-qps=5000", "--kube-api-burst=5000"]
        self._start_component(name, [f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}", *options])

    def stop_scheduler(self) -> None:
        self._children.pop("kube-scheduler").stop()

    # -- who asks

    @property
    def ca_file(self) -> Path:
        return self._authority.certificate

    def token(self, user: str = "admin") -> str:
        return self._credentials.token(user)

    def api(self, user: str = "admin") -> Api:
        return Api(self.access(user))

    def access(self, user: str = "admin") -> Access:
        return Access(self.server, self.token(user), str(self.ca_file))

    def kubeconfig(self, user: str = "admin", *, server: str | None = None) -> Path:
        """With the user's token; `server` is another door to the same API server, such as a proxy."""
        return self._kubeconfig(user, server, {"token": self.token(user)})

    def certificate_kubeconfig(self, user: str, *groups: str) -> Path:
        """Of anybody at all, known by a client certificate."""
        certificate, key = self._authority.client(user, groups)
        return self._kubeconfig(user, None, {"client-certificate": str(certificate), "client-key": str(key)})

    def server_certificate(self, name: str) -> tuple[Path, Path]:
        """Of a server on loopback that the API server is to trust, and its key."""
        return self._authority.server(name, hosts=["localhost"], addresses=["127.0.0.1"])

    def service_account_token(self, namespace: str, name: str) -> str:
        """Of a service account that exists."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
        return str(self.api().create(path, body)["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str, *, server: str | None = None) -> Path:
        token = self.service_account_token(namespace, name)
        return self._kubeconfig(f"{namespace}-{name}", server, {"token": token})

    def kubectl(self, *arguments: str, user: str = "admin", stdin: str | None = None, check: bool = True) -> str:
        """What it printed. A failure shows what it complained about, unless `check` is off."""
        program = [self._binaries.path("kubectl"), "--cache-dir", str(self.directory / "kubectl-cache")]
        done = subprocess.run(
            [*program, "--kubeconfig", str(self.kubeconfig(user)), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout if check else done.stdout + done.stderr

    def audited(self) -> list[dict[str, Any]]:
        """What was asked for so far, by whom: events of Kubernetes' audit log, without their bodies."""
        if not self.audit_file.exists():
            return []
        return [json.loads(line) for line in self.audit_file.read_text().splitlines() if line.endswith("}")]

    @property
    def audit_file(self) -> Path:
        return self.directory / "audit.log"

    def said(self, component: str = "kube-apiserver") -> str:
        """The end of a component's log."""
        return self._children[component].said()

    # -- how its parts are started

    def _start_etcd(self) -> None:
        data = self._etcd_directory
        data.mkdir(parents=True)
        peers = f"http://127.0.0.1:{free_port()}"
        command = [self._binaries.path("etcd"), "--data-dir", str(data), "--name", "only"]
        command += ["--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command += ["--initial-cluster", f"only={peers}", "--quota-backend-bytes", str(8 << 30)]
        self._spawn("etcd", command)
        health = Api(Access(self._etcd_url, token=""))
        self._await("etcd", lambda: "true" in health.text("/health"))

    def _apiserver(self) -> list[str]:
        certificate, key = self._authority.server(
            "apiserver",
            hosts=[*OWN_NAMES, "kubernetes.default.svc.cluster.local"],
            addresses=["127.0.0.1", "10.96.0.1", self.address],
        )
        options = apiserver_options(
            etcd=self._etcd_url,
            address=self.address,
            port=self.port,
            directory=self.directory,
            serving=(certificate, key),
            to_kubelets=self._authority.client("kube-apiserver", ["system:masters"]),
            signing=signing_key(self.directory),
            ca_file=self.ca_file,
            tokens=self._credentials.write_token_file(),
            controllers=self.has_controllers,
            node_lifecycle=self._lifecycle,
        )
        if self._audit:
            policy = self.directory / "audit-policy.json"
            policy.write_text(json.dumps(AUDIT_POLICY))
            options |= {"audit-policy-file": policy, "audit-log-path": self.audit_file}
        command = [self._binaries.path("kube-apiserver"), *(f"--{name}={value}" for name, value in options.items())]
        return [*command, *self._apiserver_options]

    def _start_controllers(self) -> None:
        options = controller_options(
            kubeconfig=self.kubeconfig("system:kube-controller-manager"),
            directory=self.directory,
            ca=(self.ca_file, self._authority.key),
            node_lifecycle=self._lifecycle,
        )
        command = [f"--{name}={value}" for name, value in options.items()]
        self._start_component("kube-controller-manager", [*command, *self._controller_options])

    def _start_component(self, name: str, options: Sequence[str]) -> None:
        port = free_port()
        common = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={self.directory}"]
        common += ["--leader-elect=false", "--authorization-always-allow-paths=/healthz"]
        if self._binaries.version < (1, 24):
            common.append("--port=0")  # else it also serves, without asking who is there, on all addresses
        self._spawn(name, [self._binaries.path(name), *common, *options])
        self._await(name, lambda: _healthy(port))

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        self._children[name] = Child(name, command, self.directory / f"{name}.log")

    def _await(self, name: str, holds: Callable[[], bool]) -> None:
        def still() -> bool:
            self._children[name].require_running()
            return holds()

        until(still, f"{name} is ready", story=self._children[name].said, every_s=0.05)

    def _kubeconfig(self, user: str, server: str | None, how: Mapping[str, str]) -> Path:
        name = user.replace(":", "-") + (f"-{urlsplit(server).port}" if server else "")
        path = self.directory / f"{name}.kubeconfig"
        return write_kubeconfig(path, server=server or self.server, ca_file=self.ca_file, user=how)


def _healthy(port: int) -> bool:
    """Of a component that signs its own certificate."""
    anybody = ssl.create_default_context()
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=anybody, timeout=5) as answer:
        return bool(answer.read() == b"ok")


def _etcd_directory(directory: Path, port: int) -> Path:
    """In memory where there is some, since etcd syncs every write. What killed runs left there goes."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shutil.disk_usage(shared).free < 2 << 30:
        return directory / "etcd"
    for left in shared.glob("sterna-etcd-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return shared / f"sterna-etcd-{os.getpid()}-{port}"
