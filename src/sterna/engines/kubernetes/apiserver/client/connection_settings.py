"""Which cluster and which user: one value, wherever it was found. `kubeconfig` reads files; here is the rest.

Nothing is opened yet: a token file is read when a request needs it, because it may have changed by then.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sterna.model.errors import InvalidRequest

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: in a file, or at hand."""

    path: Path | None = None
    data: bytes | None = field(default=None, repr=False)

    def read(self) -> bytes:
        """Its content; a file is read anew each time. Raises OSError."""
        return self.data if self.data is not None else Path(self.path or "").read_bytes()


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Pem
    key: Pem


@dataclass(frozen=True, slots=True)
class Token:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    path: Path  # read again whenever it changes


@dataclass(frozen=True, slots=True)
class Basic:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A program that prints an ExecCredential."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    api_version: str
    provide_cluster: bool = False
    install_hint: str = ""


Identity = Token | TokenFile | Basic | Exec


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One cluster as one user."""

    server: str  # https://host:port, with a path where the server is behind one; no slash at the end
    namespace: str = "default"
    ca: Pem | None = None  # None: the machine's own
    insecure: bool = False  # the server's certificate is not looked at
    server_name: str | None = None  # the name its certificate is for. None: the one in `server`
    proxy: str | None = None
    certificate: Certificate | None = None  # the client's; may be given beside an identity
    identity: Identity | None = None  # None: only the certificate, or anonymous
    impersonate: tuple[tuple[str, str], ...] = ()  # headers
    source: str = ""  # where this was found, for messages


def in_cluster(*, environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> Configuration:
    """As a pod finds its cluster: two variables and the mounted service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    for name, value in (("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)):
        if not value:
            raise InvalidRequest(field=name, value=value, expected="what Kubernetes sets inside a pod")
    token, ca = directory / "token", directory / "ca.crt"
    for path in (token, ca):
        if not path.is_file():
            expected = "a file; does the pod set automountServiceAccountToken: false?"
            raise InvalidRequest(field="service account", value=str(path), expected=expected)
    return Configuration(
        server=f"https://{_bracketed(host)}:{port}",
        namespace=_namespace_in(directory / "namespace"),
        ca=Pem(path=ca),
        identity=TokenFile(token),
        source="the pod's service account",
    )


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


def _namespace_in(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
