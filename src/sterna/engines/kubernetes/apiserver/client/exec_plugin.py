"""Credentials that a program prints: `client.authentication.k8s.io`, as clouds hand them out."""

import asyncio
import base64
import contextlib
import os
from datetime import datetime
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.client.connection_settings import Certificate, Configuration, Exec, Pem
from sterna.engines.kubernetes.apiserver.objects import Shape
from sterna.engines.kubernetes.apiserver.port import Unreachable
from sterna.model.errors import InvalidRequest

DEADLINE_S = 60.0
_RETRY_S = 5.0
_SHOWN = 500


class _CredentialStatus(Shape, frozen=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(Shape, frozen=True):
    kind: str = ""
    api_version: str = ""
    status: _CredentialStatus | None = None


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """What the program printed. Shown nowhere: it is secret."""

    token: str
    certificate: Certificate | None
    expires_s: float | None  # seconds since 1970. None: until the server refuses it

    def __repr__(self) -> str:
        return "Printed(...)"


async def ask(plugin: Exec, configuration: Configuration, *, deadline_s: float = DEADLINE_S) -> Printed:
    """Run it. `InvalidRequest` when it cannot be run, `Unreachable` when it failed: it may succeed the next time."""
    where = f"{configuration.source}: exec.command"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": _question(plugin, configuration)},
        )
    except OSError as error:
        expected = f"a program that can be run ({error.strerror})" + (
            f". {plugin.install_hint}" if plugin.install_hint else ""
        )
        raise InvalidRequest(field=where, value=plugin.command, expected=expected) from None
    try:
        async with asyncio.timeout(deadline_s):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise _failed(plugin, f"did not end within {deadline_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        said = complaint.decode("utf-8", "replace").strip()[-_SHOWN:]
        raise _failed(plugin, f"ended with {process.returncode}: {said or 'it said nothing'}")
    return _read(plugin, output)


def _question(plugin: Exec, configuration: Configuration) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster:
        cluster: dict[str, Any] = {"server": configuration.server}
        if configuration.server_name is not None:
            cluster["tls-server-name"] = configuration.server_name
        if configuration.insecure:
            cluster["insecure-skip-tls-verify"] = True
        if configuration.ca is not None:
            cluster["certificate-authority-data"] = base64.b64encode(configuration.ca.read()).decode("ascii")
        if configuration.proxy is not None:
            cluster["proxy-url"] = configuration.proxy
        spec["cluster"] = cluster
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(question).decode("utf-8")


def _read(plugin: Exec, output: bytes) -> Printed:
    try:
        printed = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError as error:
        raise _failed(plugin, f"did not print an ExecCredential: {error}") from None
    if printed.kind != "ExecCredential" or printed.api_version != plugin.api_version:
        found = f"{printed.api_version or 'no version'} {printed.kind or 'no kind'}"
        raise _failed(plugin, f"printed {found}, not {plugin.api_version} ExecCredential")
    status = printed.status
    if status is None or not (status.token or (status.client_certificate_data and status.client_key_data)):
        raise _failed(plugin, "printed neither status.token nor status.clientCertificateData with clientKeyData")
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        certificate = Certificate(
            Pem(data=status.client_certificate_data.encode()), Pem(data=status.client_key_data.encode())
        )
    expires = status.expiration_timestamp
    return Printed(
        token=status.token, certificate=certificate, expires_s=expires.timestamp() if expires is not None else None
    )


def _failed(plugin: Exec, how: str) -> Unreachable:
    return Unreachable(f"credentials cannot be had: {plugin.command} {how}", retry_after_s=_RETRY_S)
