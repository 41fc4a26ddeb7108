"""Kubeconfig files as kubectl reads them: several are merged, the first to say something wins, paths are relative to
the file that holds them. What cannot be used is refused by file, field and value, before anything is sent.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from sterna.engines.kubernetes.apiserver.client.connection_settings import (
    SERVICE_ACCOUNT,
    Basic,
    Certificate,
    Configuration,
    Exec,
    Identity,
    Pem,
    Token,
    TokenFile,
    in_cluster,
)
from sterna.model.errors import InvalidRequest

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_BYTES_MAX = 4 << 20


class _Entry(NamedTuple):
    """One cluster, user or context, and where it stands."""

    path: Path
    name: str
    body: Mapping[str, Any]

    def refused(self, name: str, value: object, expected: str) -> InvalidRequest:
        """The error for one of its fields."""
        return InvalidRequest(field=f"{self.path}: {self.name}.{name}", value=value, expected=expected)

    def text(self, name: str) -> str | None:
        """None: it is not there, or empty, which kubectl takes for the same."""
        value = self.body.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.refused(name, value, "a text")
        return value

    def flag(self, name: str) -> bool:
        value = self.body.get(name, False)
        if not isinstance(value, bool):
            raise self.refused(name, value, "true or false")
        return value

    def file(self, name: str) -> Path | None:
        text = self.text(name)
        if text is None:
            return None
        path = self.path.parent / Path(text).expanduser()
        if not path.is_file():
            raise self.refused(name, text, f"a file; there is none at {path}")
        return path

    def pem(self, name: str) -> Pem | None:
        """`name`-data wins over `name`, as in kubectl."""
        text = self.text(f"{name}-data")
        if text is None:
            path = self.file(name)
            return Pem(path=path) if path is not None else None
        try:
            return Pem(data=base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            raise self.refused(f"{name}-data", "(not shown)", "base64 of a PEM file") from None


def discovered(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Configuration:
    """The file asked for, else those of KUBECONFIG, else ~/.kube/config, else the pod we run in."""
    if kubeconfig is not None:
        return from_kubeconfig([kubeconfig], context=context)
    named = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = Path(environment.get("HOME") or "~").expanduser() / ".kube" / "config"
    paths = named or [home]
    if any(path.is_file() for path in paths):
        return from_kubeconfig([path for path in paths if path.exists()], context=context)
    if environment.get("KUBERNETES_SERVICE_HOST") and context is None:
        return in_cluster(environment=environment, directory=service_account)
    looked = ", ".join(str(path) for path in paths)
    expected = f"a kubeconfig: there is none at {looked}, and this is not a pod. Set KUBECONFIG, or give --kubeconfig"
    raise InvalidRequest(field="kubeconfig", value=environment.get("KUBECONFIG", ""), expected=expected)


def from_kubeconfig(paths: Sequence[Path], *, context: str | None = None) -> Configuration:
    """The context asked for, else the current one of the first file that names one."""
    documents = [(path, _document(path)) for path in paths]
    source = ", ".join(str(path) for path in paths)
    chosen = context or next(
        (str(document["current-context"]) for _, document in documents if document.get("current-context")), ""
    )
    contexts = _entries(documents, "contexts", "context")
    if not chosen:
        field = f"{source}: current-context"
        raise InvalidRequest(field=field, value="", expected=f"{_one_of(contexts)}; or give --context")
    if chosen not in contexts:
        raise InvalidRequest(field=f"{source}: context", value=chosen, expected=_one_of(contexts))
    here = contexts[chosen]
    cluster = _named(here, "cluster", _entries(documents, "clusters", "cluster"))
    user = _named(here, "user", _entries(documents, "users", "user")) if here.text("user") else None
    return Configuration(
        server=_server(cluster),
        namespace=here.text("namespace") or "default",
        ca=cluster.pem("certificate-authority"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name"),
        proxy=_proxy(cluster),
        certificate=_certificate(user) if user else None,
        identity=_identity(user) if user else None,
        impersonate=_impersonation(user) if user else (),
        source=f"context {chosen} of {source}",
    )


# -- files ------------------------------------------------------------------------------------------------------------


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as source:
            text = source.read(_BYTES_MAX + 1)
    except OSError as error:
        expected = f"a kubeconfig that can be read ({error.strerror})"
        raise InvalidRequest(field="kubeconfig", value=str(path), expected=expected) from None
    if len(text) > _BYTES_MAX:
        raise InvalidRequest(field="kubeconfig", value=str(path), expected=f"at most {_BYTES_MAX} bytes")
    try:
        document = yaml.safe_load(text)  # JSON is YAML
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise InvalidRequest(field="kubeconfig", value=str(path), expected=f"YAML or JSON{where}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidRequest(field="kubeconfig", value=str(path), expected="a mapping with clusters, users, contexts")
    return document


def _entries(documents: Iterable[tuple[Path, Mapping[str, Any]]], plural: str, singular: str) -> dict[str, _Entry]:
    found: dict[str, _Entry] = {}
    for path, document in documents:
        listed = document.get(plural) or []
        if not isinstance(listed, list):
            raise InvalidRequest(field=f"{path}: {plural}", value=listed, expected="a list")
        for index, item in enumerate(listed):
            name = item.get("name") if isinstance(item, dict) else None
            body = item.get(singular) or {} if isinstance(item, dict) else None
            if not isinstance(name, str) or not isinstance(body, dict):
                expected = f"a mapping with name and {singular}"
                raise InvalidRequest(field=f"{path}: {plural}[{index}]", value=item, expected=expected)
            found.setdefault(name, _Entry(path, f"{plural}[{name}].{singular}", body))
    return found


def _named(context: _Entry, kind: str, entries: Mapping[str, _Entry]) -> _Entry:
    name = context.text(kind)
    if name is None or name not in entries:
        raise context.refused(kind, name, _one_of(entries))
    return entries[name]


def _one_of(entries: Iterable[str]) -> str:
    names = sorted(entries)
    return f"one of {', '.join(names)}" if names else "an entry, and there is none"


# -- clusters and users -----------------------------------------------------------------------------------------------


def _server(cluster: _Entry) -> str:
    server = cluster.text("server") or ""
    try:
        parts = urlsplit(server if "://" in server else f"http://{server}")
        _ = parts.port  # a port that is none is found out only when asked
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise cluster.refused("server", server, "https://HOST:PORT")
    return parts.geturl().rstrip("/")


def _proxy(cluster: _Entry) -> str | None:
    proxy = cluster.text("proxy-url")
    if proxy is not None and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.refused("proxy-url", proxy, "http://HOST:PORT")
    return proxy


def _certificate(user: _Entry) -> Certificate | None:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        absent = "client-certificate" if certificate is None else "client-key"
        raise user.refused(absent, None, f"{absent} or {absent}-data, because the other half is given")
    return Certificate(certificate, key)


def _identity(user: _Entry) -> Identity | None:
    """A token wins over a program, a file over both: its content is newer than what stands beside it."""
    if "auth-provider" in user.body:
        raise user.refused("auth-provider", "(not shown)", "exec: auth-provider was taken out of Kubernetes in 1.26")
    path = user.file("tokenFile")
    if path is not None:
        return TokenFile(path)
    token = user.text("token")
    if token is not None:
        return Token(token)
    username = user.text("username")
    if username is not None:
        return Basic(username, user.text("password") or "")
    return _exec(user) if user.body.get("exec") else None


def _exec(user: _Entry) -> Exec:
    body = user.body["exec"]
    if not isinstance(body, dict):
        raise user.refused("exec", body, "a mapping with apiVersion and command")
    entry = _Entry(user.path, f"{user.name}.exec", body)
    version = entry.text("apiVersion")
    if version not in EXEC_VERSIONS:
        raise entry.refused("apiVersion", version, f"one of {', '.join(EXEC_VERSIONS)}")
    command = entry.text("command")
    if command is None:
        raise entry.refused("command", command, "a program that prints a credential")
    if entry.text("interactiveMode") == "Always":
        raise entry.refused("interactiveMode", "Always", "Never or IfAvailable: a scheduler has no keyboard")
    return Exec(
        command=str(user.path.parent / command) if os.sep in command else command,
        arguments=tuple(str(argument) for argument in body.get("args") or ()),
        environment=_variables(entry),
        api_version=version,
        provide_cluster=entry.flag("provideClusterInfo"),
        install_hint=entry.text("installHint") or "",
    )


def _variables(entry: _Entry) -> tuple[tuple[str, str], ...]:
    listed = entry.body.get("env") or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) and "name" in item for item in listed):
        raise entry.refused("env", listed, "a list of name and value")
    return tuple((str(item["name"]), str(item.get("value") or "")) for item in listed)


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    name, uid = user.text("as"), user.text("as-uid")
    groups = user.body.get("as-groups") or []
    if name is None:
        return ()
    return (
        ("Impersonate-User", name),
        *([("Impersonate-Uid", uid)] if uid is not None else []),
        *(("Impersonate-Group", str(group)) for group in groups),
    )
