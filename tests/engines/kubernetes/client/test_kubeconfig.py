"""Where a cluster is found, and what is said when it is not: file, field, value, and what would do."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.engines.kubernetes.apiserver.client import Configuration, discovered, from_kubeconfig, in_cluster
from sterna.engines.kubernetes.apiserver.client.connection_settings import (
    Basic,
    Certificate,
    Exec,
    Pem,
    Token,
    TokenFile,
)
from sterna.model.errors import InvalidRequest


def document(*, cluster: Any = None, user: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://c:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": {} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    } | more


def read(directory: Path, body: Any, *, context: str | None = None) -> Configuration:
    path = directory / "config"
    path.write_text(body if isinstance(body, str) else yaml.safe_dump(body))
    return from_kubeconfig([path], context=context)


def test_the_current_context_names_cluster_user_and_namespace(tmp_path):
    found = read(tmp_path, document(user={"token": "secret"}))
    assert (found.server, found.namespace, found.identity) == ("https://c:6443", "team", Token("secret"))
    assert "secret" not in repr(found)


def test_json_is_as_good_as_yaml(tmp_path):
    assert read(tmp_path, json.dumps(document())).server == "https://c:6443"


def test_relative_paths_are_relative_to_the_file(tmp_path):
    for name in ("ca.pem", "cert.pem", "key.pem", "token"):
        (tmp_path / name).write_text("x")
    user = {"client-certificate": "cert.pem", "client-key": "key.pem", "tokenFile": "token", "token": "older"}
    found = read(tmp_path, document(cluster={"certificate-authority": "ca.pem"}, user=user))
    assert found.ca == Pem(path=tmp_path / "ca.pem")
    assert found.certificate == Certificate(Pem(path=tmp_path / "cert.pem"), Pem(path=tmp_path / "key.pem"))
    assert found.identity == TokenFile(tmp_path / "token")


def test_data_wins_over_a_file(tmp_path):
    data = base64.b64encode(b"pem").decode()
    found = read(tmp_path, document(cluster={"certificate-authority": "absent", "certificate-authority-data": data}))
    assert found.ca == Pem(data=b"pem")


def test_other_fields_of_cluster_and_user(tmp_path):
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "kube", "proxy-url": "http://p:1"}
    user = {"username": "u", "password": "p", "as": "alice", "as-groups": ["g", "h"]}
    found = read(tmp_path, document(cluster=cluster, user=user))
    assert (found.insecure, found.server_name, found.proxy) == (True, "kube", "http://p:1")
    assert found.identity == Basic("u", "p")
    assert found.impersonate == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
    )


def test_a_program_that_prints_credentials(tmp_path):
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "bin/login",
        "args": ["--cluster", "c"],
        "env": [{"name": "PROFILE", "value": "x"}],
        "provideClusterInfo": True,
        "installHint": "get it there",
    }
    assert read(tmp_path, document(user={"exec": plugin})).identity == Exec(
        command=str(tmp_path / "bin/login"),
        arguments=("--cluster", "c"),
        environment=(("PROFILE", "x"),),
        api_version="client.authentication.k8s.io/v1beta1",
        provide_cluster=True,
        install_hint="get it there",
    )


def test_several_files_are_merged_and_the_first_to_say_something_wins(tmp_path):
    first, second = tmp_path / "a" / "config", tmp_path / "b" / "config"
    for path in (first, second):
        path.parent.mkdir()
        (path.parent / "token").write_text("x")
    first.write_text(
        yaml.safe_dump({"users": [{"name": "u", "user": {"tokenFile": "token"}}], "current-context": "here"})
    )
    second.write_text(yaml.safe_dump(document(user={"tokenFile": "token"}, **{"current-context": "elsewhere"})))
    environment = {"KUBECONFIG": os.pathsep.join([str(first), str(tmp_path / "absent"), "", str(second)])}
    found = discovered(environment=environment)
    assert found.identity == TokenFile(tmp_path / "a" / "token")
    assert found.server == "https://c:6443"


@pytest.mark.parametrize(
    ("body", "names", "expects"),
    [
        pytest.param("{", "kubeconfig", "YAML or JSON", id="not YAML"),
        pytest.param("- a", "kubeconfig", "a mapping", id="not a mapping"),
        pytest.param("", "current-context", "there is none", id="empty"),
        pytest.param(document(**{"current-context": "gone"}), "context: 'gone'", "one of here", id="no such context"),
        pytest.param(document(clusters=[]), "contexts[here].context.cluster", "there is none", id="no such cluster"),
        pytest.param(document(users=[]), "contexts[here].context.user", "there is none", id="no such user"),
        pytest.param(document(clusters=3), "clusters", "a list", id="clusters are no list"),
        pytest.param(document(clusters=[3]), "clusters[0]", "a mapping with name and cluster", id="a cluster is none"),
        pytest.param(document(cluster={"server": "ftp://x"}), "clusters[c].cluster.server", "https://", id="no server"),
        pytest.param(document(cluster={"server": "https://h:port"}), "cluster.server", "https://", id="no port"),
        pytest.param(
            document(cluster={"proxy-url": "socks5://x"}), "proxy-url", "http://", id="a proxy of another kind"
        ),
        pytest.param(
            document(cluster={"insecure-skip-tls-verify": "yes"}),
            "insecure-skip-tls-verify",
            "true or false",
            id="a flag",
        ),
        pytest.param(
            document(cluster={"certificate-authority": "no.pem"}),
            "certificate-authority",
            "a file",
            id="an absent file",
        ),
        pytest.param(
            document(cluster={"certificate-authority-data": "%%%"}), "certificate-authority-data", "base64", id="base64"
        ),
        pytest.param(document(user={"token": 12}), "users[u].user.token", "a text", id="a token that is a number"),
        pytest.param(document(user={"client-key-data": "eA=="}), "client-certificate", "other half", id="half a pair"),
        pytest.param(document(user={"auth-provider": {"name": "gcp"}}), "auth-provider", "exec", id="what was removed"),
        pytest.param(
            document(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "exec.apiVersion",
            "client.authentication.k8s.io/v1,",
            id="an older exec",
        ),
        pytest.param(
            document(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}),
            "exec.command",
            "a program",
            id="exec without a command",
        ),
        pytest.param(
            document(
                user={
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "command": "x",
                        "interactiveMode": "Always",
                    }
                }
            ),
            "exec.interactiveMode",
            "Never or IfAvailable",
            id="exec that wants a person",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path, body, names, expects):
    with pytest.raises(InvalidRequest) as refusal:
        read(tmp_path, body)
    assert names in str(refusal.value)
    assert expects in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


def test_a_secret_that_cannot_be_read_is_not_shown(tmp_path):
    with pytest.raises(InvalidRequest) as refusal:
        read(tmp_path, document(user={"client-key-data": "c2VjcmV0!!"}))
    assert "c2VjcmV0" not in str(refusal.value)


# -- where it is looked for -------------------------------------------------------------------------------------------


def account(directory: Path) -> Path:
    (directory / "token").write_text("t")
    (directory / "ca.crt").write_text("pem")
    (directory / "namespace").write_text("sterna-system\n")
    return directory


def test_a_pod_finds_its_cluster(tmp_path):
    environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    found = discovered(environment=environment, service_account=account(tmp_path))
    assert (found.server, found.namespace) == ("https://10.96.0.1:443", "sterna-system")
    assert found.identity == TokenFile(tmp_path / "token")
    assert found.ca == Pem(path=tmp_path / "ca.crt")


def test_a_pod_with_ipv6_finds_its_cluster(tmp_path):
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environment=environment, directory=account(tmp_path)).server == "https://[fd00::1]:443"


def test_a_kubeconfig_wins_over_the_pod(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(document()))
    environment = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    assert discovered(environment=environment, service_account=account(tmp_path)).server == "https://c:6443"


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        pytest.param({"KUBERNETES_SERVICE_HOST": "h"}, "KUBERNETES_SERVICE_PORT", id="no port"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, "token", id="no account"),
    ],
)
def test_half_a_pod_is_refused(tmp_path, environment, names):
    with pytest.raises(InvalidRequest, match=names):
        in_cluster(environment=environment, directory=tmp_path)


def test_nowhere_is_said_with_every_place_that_was_tried(tmp_path):
    with pytest.raises(InvalidRequest) as refusal:
        discovered(environment={"HOME": str(tmp_path)})
    assert str(tmp_path / ".kube" / "config") in str(refusal.value)
    assert "KUBECONFIG" in str(refusal.value)


def test_a_file_that_was_asked_for_must_be_there(tmp_path):
    with pytest.raises(InvalidRequest, match="No such file"):
        discovered(kubeconfig=tmp_path / "absent")
