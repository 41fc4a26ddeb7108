"""What requests show of themselves, and that it is as fresh as its source."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from sterna.engines.kubernetes.apiserver.client import Configuration, exec_plugin
from sterna.engines.kubernetes.apiserver.client.connection_settings import (
    Basic,
    Certificate,
    Exec,
    Pem,
    Token,
    TokenFile,
)
from sterna.engines.kubernetes.apiserver.client.credentials import Credentials
from sterna.engines.kubernetes.apiserver.port import Unreachable
from sterna.model.errors import InvalidRequest
from tests.engines.kubernetes.client.doors import run
from tests.waiting import until

V1 = "client.authentication.k8s.io/v1"


def configuration(identity, **more) -> Configuration:
    return Configuration(server="https://c", identity=identity, source="the test", **more)


async def shown(credentials: Credentials) -> str | None:
    return (await credentials.current()).headers.get("Authorization")


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        pytest.param(Token("t"), "Bearer t", id="a token"),
        pytest.param(Basic("u", "p"), "Basic dTpw", id="a password"),
        pytest.param(None, None, id="nobody"),
    ],
)
def test_what_is_shown(identity, expected):
    assert run(shown(Credentials(configuration(identity)))) == expected


def test_a_token_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")

    async def scene() -> None:
        credentials = Credentials(configuration(TokenFile(path)))
        assert await shown(credentials) == "Bearer first"
        aside = tmp_path / "aside"
        aside.write_text("other")
        aside.rename(path)
        assert await shown(credentials) == "Bearer other"
        path.write_text("")  # half way through being written
        assert await shown(credentials) == "Bearer other"
        path.unlink()
        assert await shown(credentials) == "Bearer other"

    run(scene())


def test_a_token_file_that_never_was_is_named(tmp_path):
    with pytest.raises(Unreachable, match="absent"):
        run(shown(Credentials(configuration(TokenFile(tmp_path / "absent")))))


def test_certificates_that_are_none_are_named(tmp_path):
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(InvalidRequest, match=r"certificate-authority: .*ca\.crt"):
        Credentials(configuration(None, ca=Pem(path=tmp_path / "ca.crt")))
    with pytest.raises(InvalidRequest, match="client-certificate"):
        Credentials(configuration(None, certificate=Certificate(Pem(data=b"x"), Pem(data=b"y"))))


# -- programs ---------------------------------------------------------------------------------------------------------


def program(directory: Path, script: str) -> str:
    path = directory / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def printing(directory: Path, *, version: str = V1, **status: object) -> Exec:
    """Prints a credential and notes each run."""
    printed = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return Exec(command=program(directory, f"echo run >> {directory}/runs\necho '{printed}'"), api_version=version)


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_program_is_asked_once_for_all_until_its_credential_ends(tmp_path, version):
    async def scene() -> None:
        plugin = printing(tmp_path, version=version, token="t", expirationTimestamp="2999-01-01T00:00:00Z")
        credentials = Credentials(configuration(plugin))
        assert set(await asyncio.gather(*(shown(credentials) for _ in range(5)))) == {"Bearer t"}
        assert runs(tmp_path) == 1
        credentials.renew()  # the server refused it
        await shown(credentials)
        assert runs(tmp_path) == 2

    run(scene())


def test_a_credential_that_ended_is_asked_for_again(tmp_path):
    async def scene() -> None:
        plugin = printing(tmp_path, token="t", expirationTimestamp="2001-01-01T00:00:00Z")
        credentials = Credentials(configuration(plugin))
        await shown(credentials)
        await shown(credentials)
        assert runs(tmp_path) == 2

    run(scene())


def test_a_program_is_told_about_the_cluster_when_it_wants_to_know(tmp_path):
    script = f"""printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; printf %s "$1 $PROFILE" > {tmp_path}/given
    echo '{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "t"}}}}'"""
    plugin = Exec(
        command=program(tmp_path, script),
        arguments=("first",),
        environment=(("PROFILE", "mine"),),
        api_version=V1,
        provide_cluster=True,
    )
    run(exec_plugin.ask(plugin, configuration(plugin, server_name="kube")))
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://c", "tls-server-name": "kube"}}
    assert (tmp_path / "given").read_text() == "first mine"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param("echo 'log in first' >&2; exit 3", "ended with 3: log in first", id="it fails"),
        pytest.param("echo hello", "did not print an ExecCredential", id="it prints something else"),
        pytest.param("echo '{}'", "printed no version no kind", id="it prints another kind"),
        pytest.param(
            f"""echo '{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{}}}}'""",
            "neither status.token nor",
            id="it prints no credential",
        ),
    ],
)
def test_a_program_that_gives_nothing_is_quoted(tmp_path, script, says):
    plugin = Exec(command=program(tmp_path, script), api_version=V1)
    with pytest.raises(Unreachable) as trouble:
        run(exec_plugin.ask(plugin, configuration(plugin)))
    assert says in str(trouble.value)
    assert "login" in str(trouble.value)


def test_a_program_that_does_not_end_is_ended(tmp_path):
    plugin = Exec(command=program(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600"), api_version=V1)
    with pytest.raises(Unreachable, match="did not end within"):
        run(exec_plugin.ask(plugin, configuration(plugin), deadline_s=2.0))
    pid = (tmp_path / "pid").read_text().strip()
    until(lambda: not Path("/proc", pid).exists(), "it has ended")


def test_a_program_that_is_not_there_comes_with_its_hint(tmp_path):
    plugin = Exec(command=str(tmp_path / "absent"), api_version=V1, install_hint="pip install login")
    with pytest.raises(InvalidRequest, match="pip install login"):
        run(exec_plugin.ask(plugin, configuration(plugin)))
