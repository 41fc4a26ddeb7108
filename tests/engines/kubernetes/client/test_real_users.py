"""Showing oneself to a real API server: by certificate, token, a token file that is turned, and programs."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from sterna.engines.kubernetes.apiserver.client import Configuration, Limits, connect, from_kubeconfig, in_cluster
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, NodeObject
from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS, NODES, Refused, Unreachable
from tests.cluster.control_plane import ControlPlane
from tests.engines.kubernetes.client.doors import config_map, run

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(plane: ControlPlane, directory: Path, user: dict[str, Any], **cluster: Any) -> Path:
    by_default = {"server": plane.server, "certificate-authority": str(plane.ca_file)}
    body = {
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": by_default | cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path = directory / "kubeconfig"
    path.write_text(json.dumps(body))
    return path


def pair(plane: ControlPlane, user: str, *groups: str) -> tuple[Path, Path]:
    body = json.loads(plane.certificate_kubeconfig(user, *groups).read_text())["users"][0]["user"]
    return Path(body["client-certificate"]), Path(body["client-key"])


async def nodes_seen(configuration: Configuration) -> None:
    async with connect(configuration, limits=Limits(attempts=1)) as api:
        await api.listing(NODES, shape=NodeObject)


async def who_is_refused(configuration: Configuration) -> str:
    """RBAC names the user it refuses."""
    with pytest.raises(Refused) as refusal:
        await nodes_seen(configuration)
    assert refusal.value.code == 403
    return str(refusal.value)


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_by_certificate_in_files(control_plane):
    run(nodes_seen(from_kubeconfig([control_plane.certificate_kubeconfig("root", "system:masters")])))


def test_by_certificate_as_data(control_plane, tmp_path):
    certificate, key = pair(control_plane, "carol")
    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    cluster = {"certificate-authority-data": encoded(control_plane.ca_file)}
    path = kubeconfig(control_plane, tmp_path, user, **cluster)
    assert 'User "carol" cannot list resource "nodes"' in run(who_is_refused(from_kubeconfig([path])))


def test_by_token(control_plane, tmp_path):
    path = kubeconfig(control_plane, tmp_path, {"token": control_plane.token("alice")})
    assert 'User "alice"' in run(who_is_refused(from_kubeconfig([path])))


def test_as_somebody_else(control_plane, tmp_path):
    user = {"token": control_plane.token(), "as": "dave", "as-groups": ["staff", "friends"]}
    path = kubeconfig(control_plane, tmp_path, user)
    assert 'User "dave"' in run(who_is_refused(from_kubeconfig([path])))


def test_a_wrong_token_is_refused_with_advice(control_plane, tmp_path):
    path = kubeconfig(control_plane, tmp_path, {"token": "wrong"})
    with pytest.raises(Refused, match="check the token") as refusal:
        run(nodes_seen(from_kubeconfig([path])))
    assert refusal.value.code == 401


def test_a_token_file_that_is_turned_while_connected(control_plane, tmp_path):
    token = tmp_path / "token"
    token.write_text(control_plane.token())
    path = kubeconfig(control_plane, tmp_path, {"tokenFile": "token"})

    async def scene() -> None:
        async with connect(from_kubeconfig([path])) as api:
            await api.listing(NODES, shape=NodeObject)
            aside = tmp_path / "aside"
            aside.write_text(control_plane.token("bob"))
            aside.rename(token)
            with pytest.raises(Refused, match='User "bob"'):
                await api.listing(NODES, shape=NodeObject)

    run(scene())


def program(directory: Path, status: dict[str, Any]) -> dict[str, Any]:
    (directory / "printed").write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))
    path = directory / "login"
    path.write_text('#!/bin/sh\nexec cat "$1"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": V1, "command": "./login", "args": [str(directory / "printed")]}}


def test_by_a_program_that_prints_a_token(control_plane, tmp_path):
    user = program(tmp_path, {"token": control_plane.token("alice")})
    path = kubeconfig(control_plane, tmp_path, user)
    assert 'User "alice"' in run(who_is_refused(from_kubeconfig([path])))


def test_by_a_program_that_prints_a_certificate(control_plane, tmp_path):
    certificate, key = pair(control_plane, "erin")
    printed = {"clientCertificateData": certificate.read_text(), "clientKeyData": key.read_text()}
    path = kubeconfig(control_plane, tmp_path, program(tmp_path, printed))
    assert 'User "erin"' in run(who_is_refused(from_kubeconfig([path])))


def test_as_a_pod_by_its_service_account(control_plane, namespace, tmp_path):
    (tmp_path / "token").write_text(control_plane.service_account_token(namespace, "default"))
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    where = {"KUBERNETES_SERVICE_HOST": control_plane.address, "KUBERNETES_SERVICE_PORT": str(control_plane.port)}
    found = in_cluster(environment=where, directory=tmp_path)
    assert found.namespace == namespace
    assert f"system:serviceaccount:{namespace}:default" in run(who_is_refused(found))


def test_a_server_that_nobody_vouches_for_is_not_talked_to(control_plane, tmp_path):
    token = {"token": control_plane.token()}
    other, _ = pair(control_plane, "somebody")  # not the authority that signed the server's certificate
    strange = kubeconfig(control_plane, tmp_path, token, **{"certificate-authority": str(other)})
    with pytest.raises(Unreachable, match="no trust in"):
        run(nodes_seen(from_kubeconfig([strange])))
    trusting = {"insecure-skip-tls-verify": True, "certificate-authority": None}
    run(nodes_seen(from_kubeconfig([kubeconfig(control_plane, tmp_path, token, **trusting)])))


def test_the_name_in_the_servers_certificate_may_be_given(control_plane, tmp_path):
    token = {"token": control_plane.token()}
    right = kubeconfig(control_plane, tmp_path, token, **{"tls-server-name": "kubernetes.default.svc"})
    run(nodes_seen(from_kubeconfig([right])))
    wrong = kubeconfig(control_plane, tmp_path, token, **{"tls-server-name": "another.example"})
    with pytest.raises(Unreachable, match="no trust in"):
        run(nodes_seen(from_kubeconfig([wrong])))


def test_a_mistake_of_a_user_without_rights_is_told_in_the_servers_words(control_plane, namespace):
    async def scene() -> None:
        async with connect(from_kubeconfig([control_plane.kubeconfig("alice")])) as api:
            with pytest.raises(Refused, match='User "alice" cannot create resource "configmaps"') as refusal:
                await api.create(CONFIG_MAPS, config_map("a"), namespace=namespace, shape=ConfigMapObject)
            assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")

    run(scene())
