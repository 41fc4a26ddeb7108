"""What a request shows of itself: headers and a TLS context, kept as fresh as their source.

A token file is read again when it changes, a program is asked again when its credential ends, and when the server
refuses us everything is read anew once.
"""

import asyncio
import base64
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from multidict import CIMultiDict

from sterna.engines.kubernetes.apiserver.client import exec_plugin
from sterna.engines.kubernetes.apiserver.client.connection_settings import Basic, Configuration, Exec, Token, TokenFile
from sterna.engines.kubernetes.apiserver.client.exec_plugin import Printed
from sterna.engines.kubernetes.apiserver.client.tls import context_of
from sterna.engines.kubernetes.apiserver.port import Unreachable
from sterna.engines.kubernetes.process.clock import Clock, SystemClock
from sterna.model.errors import SternaError

_EARLY_S = 10.0  # a credential is renewed before its end: the request it goes with takes a while
_RETRY_S = 2.0


class Shown(NamedTuple):
    headers: CIMultiDict[str]
    tls: ssl.SSLContext


class Credentials:
    """What this user shows, renewed where its source changes."""

    def __init__(self, configuration: Configuration, *, clock: Clock | None = None) -> None:
        self._configuration = configuration
        self._clock: Clock = clock or SystemClock()
        self._tls = context_of(configuration, configuration.certificate)  # so that a mistake shows at once
        self._shown: Shown | None = None
        self._stamp: tuple[int, int, int] | None = None  # of the token file as it was read
        self._expires_s: float | None = None
        self._asking = asyncio.Lock()

    async def current(self) -> Shown:
        """Headers and TLS context for a request now. Raises Unreachable, InvalidRequest."""
        match self._configuration.identity:
            case TokenFile(path):
                return self._from_file(path)
            case Exec() as plugin:
                return await self._from_program(plugin)
            case Token(token):
                return self._shown or self._keep(f"Bearer {token}")
            case Basic(username, password):
                pair = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
                return self._shown or self._keep(f"Basic {pair}")
            case None:
                return self._shown or self._keep(None)

    def renew(self) -> None:
        """The server refused us: drop everything that is kept, so that it is read anew."""
        with suppress(SternaError):  # files half way through being changed: the next refusal comes here again
            self._tls = context_of(self._configuration, self._configuration.certificate)
        self._shown = None
        self._stamp = None

    def _keep(self, authorization: str | None, tls: ssl.SSLContext | None = None) -> Shown:
        headers: CIMultiDict[str] = CIMultiDict(self._configuration.impersonate)
        if authorization is not None:
            headers["Authorization"] = authorization
        self._shown = Shown(headers, tls or self._tls)
        return self._shown

    def _from_file(self, path: Path) -> Shown:
        try:
            found = os.stat(path)  # a mounted secret is a link that is turned: another inode
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._shown is not None and stamp == self._stamp:
                return self._shown
            token = path.read_text(encoding="utf-8").strip()
            if not token:
                raise ValueError("it is empty")
        except (OSError, ValueError) as error:
            if self._shown is not None:
                return self._shown  # the old token may still do, and the server says so if not
            raise Unreachable(f"token file {path} cannot be read: {error}", retry_after_s=_RETRY_S) from None
        self._stamp = stamp
        return self._keep(f"Bearer {token}")

    async def _from_program(self, plugin: Exec) -> Shown:
        async with self._asking:  # all requests wait for one run of the program
            if self._shown is not None and not self._is_over():
                return self._shown
            printed: Printed = await exec_plugin.ask(plugin, self._configuration)
            tls = context_of(self._configuration, printed.certificate) if printed.certificate is not None else None
            self._expires_s = printed.expires_s
            return self._keep(f"Bearer {printed.token}" if printed.token else None, tls)

    def _is_over(self) -> bool:
        return self._expires_s is not None and self._clock.wall() >= self._expires_s - _EARLY_S
