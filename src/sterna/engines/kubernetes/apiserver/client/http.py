"""Requests and answers: deadlines, credentials, turns, the gate before writes, and what is worth another try.

Reads are repeated, and so are writes of which nothing reached the server or which are harmless when repeated. Any
other write that got no answer is `Unreachable`: it may have happened, and only the caller can find out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from yarl import URL

import sterna
from sterna.engines.kubernetes.apiserver.client.backoff import Backoff
from sterna.engines.kubernetes.apiserver.client.connection_settings import Configuration
from sterna.engines.kubernetes.apiserver.client.credentials import Credentials, Shown
from sterna.engines.kubernetes.apiserver.client.fairness import Turnstile
from sterna.engines.kubernetes.apiserver.client.request_limits import Limits
from sterna.engines.kubernetes.apiserver.client.response_errors import Asking, error_of, status_of
from sterna.engines.kubernetes.apiserver.port import Refused, Throttled, Unreachable, Urgency
from sterna.engines.kubernetes.process.clock import Clock, SystemClock

Gate = Callable[[], None]  # raises when nothing may be written any more
_KEEP_ALIVE_S = 20.0  # shorter than any server's, so that it is we who close an idle connection
_READ_BYTES = 2**22  # aiohttp's default holds less than one large object
_TRY_AGAIN_S = 1.0


class Asked(NamedTuple):
    """One request that was sent, for metrics and audits."""

    asking: Asking
    code: int  # 0: there was no answer
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    asking: Asking
    method: str
    path: str  # encoded
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"
    urgency: Urgency = Urgency.READ
    gate: Gate | None = None  # asked right before it is sent. None: it is no write, or has no guard
    repeatable: bool = True  # asking twice is as good as asking once


class _NotSent(Unreachable):
    """No byte of the request reached a server, so even a write may be tried again."""


class Http:
    """One session to one server as one user."""

    def __init__(
        self,
        configuration: Configuration,
        limits: Limits,
        *,
        observe: Callable[[Asked], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.limits = limits
        self._configuration = configuration
        self._clock: Clock = clock or SystemClock()
        self._credentials = Credentials(configuration, clock=clock)
        self._turnstile = Turnstile(limits.in_flight, waiting_events=limits.waiting_events)
        self._observe = observe
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # compressing costs the server more than the network saves
                "User-Agent": f"sterna/{sterna.__version__}",
            },
            read_bufsize=_READ_BYTES,
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, request: Request) -> bytes:
        """The body of a successful answer; an error of the port otherwise."""
        backoff = Backoff(self.limits.backoff_s, self.limits.backoff_max_s)
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._turnstile.turn(request.urgency):
                    return (await self._as_known(request, whole=True))[1]
            except Throttled as error:
                if attempt >= self.limits.attempts:
                    raise
                pause_s = max(backoff.after(), min(error.retry_after_s, self.limits.retry_after_max_s))
            except Unreachable as error:
                safe = request.repeatable or isinstance(error, _NotSent)
                if not safe or attempt >= self.limits.attempts:
                    raise
                pause_s = backoff.after()
            await self._clock.sleep(pause_s)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_s: float | None) -> AsyncIterator[aiohttp.StreamReader]:
        """An answer without an end of its own: broken off when nothing came for `silence_s`. Takes no turn."""
        response, _ = await self._as_known(request, whole=False, silence_s=silence_s)
        try:
            yield response.content
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._trouble(request.asking, error) from error
        finally:
            response.close()

    async def _as_known(
        self, request: Request, *, whole: bool, silence_s: float | None = None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """A 401 is worth one more try with fresh credentials: the request was not carried out."""
        try:
            return await self._once(request, whole=whole, silence_s=silence_s)
        except Refused as error:
            if error.code != 401:
                raise
        self._credentials.renew()
        return await self._once(request, whole=whole, silence_s=silence_s)

    async def _once(
        self, request: Request, *, whole: bool, silence_s: float | None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """A successful answer. Its body if it was read as a `whole`; otherwise the caller reads and closes it."""
        shown = await self._credentials.current()
        began_s, code, body = self._clock.mono(), 0, b""
        try:
            async with asyncio.timeout(self.limits.request_s):
                response = await self._send(request, shown, silence_s=silence_s)
                code = response.status
                if whole or code >= 300:
                    async with response:
                        body = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._trouble(request.asking, error) from error
        finally:
            self._report(request.asking, code, began_s)
        if code >= 300:
            raise error_of(request.asking, code, status_of(body), retry_after=response.headers.get("Retry-After"))
        return response, body

    async def _send(self, request: Request, shown: Shown, *, silence_s: float | None) -> aiohttp.ClientResponse:
        headers = shown.headers
        if request.body is not None:
            headers = headers.copy()
            headers["Content-Type"] = request.content_type
        query = f"?{urlencode(request.query)}" if request.query else ""
        if request.gate is not None:
            request.gate()  # nothing but the network comes between this and the server
        return await self._session.request(
            request.method,
            URL(f"{self._configuration.server}{request.path}{query}", encoded=True),
            data=request.body,
            headers=headers,
            ssl=shown.tls,
            server_hostname=self._configuration.server_name,
            proxy=self._configuration.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_s, sock_read=silence_s),
        )

    def _trouble(self, asking: Asking, error: Exception) -> Unreachable:
        server = self._configuration.server
        match error:
            case aiohttp.ClientSSLError():
                self._credentials.renew()  # its certificate may have been changed together with the file we trust
                message = (
                    f"{asking}: no trust in {server}: {error}; is certificate-authority of the kubeconfig its own?"
                )
                return _NotSent(message, retry_after_s=_TRY_AGAIN_S)
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                return _NotSent(f"{asking}: {server} cannot be reached: {error}", retry_after_s=_TRY_AGAIN_S)
            case TimeoutError():
                return Unreachable(f"{asking}: {server} did not answer in time", retry_after_s=_TRY_AGAIN_S)
            case _:
                how = str(error) or type(error).__name__
                return Unreachable(f"{asking}: {server} broke off: {how}", retry_after_s=_TRY_AGAIN_S)

    def _report(self, asking: Asking, code: int, began_s: float) -> None:
        if self._observe is not None:
            self._observe(Asked(asking, code, self._clock.mono() - began_s))
