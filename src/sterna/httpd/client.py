"""One request to a server, over a connection of its own, with one deadline for everything and a limit on the answer."""

import ssl
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp


class CallFailed(Exception):
    """No answer: nothing listens there, it took too long, or it was not HTTP. Worth another try."""


class Answered(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[bytes, bytes]  # names in lower case


async def call(
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] = {},
    deadline_s: float = 10.0,
    body_bytes_max: int = 1 << 20,
    tls: ssl.SSLContext | None = None,
) -> Answered:
    """Raises CallFailed; whatever the status, it is an answer. `tls` None: the system's authorities, for https."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=deadline_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # a small answer stays one
    )
    try:
        async with (
            session,
            session.request(method, url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            content = bytearray()
            async for part in answer.content.iter_any():
                content += part
                if len(content) > body_bytes_max:
                    raise ValueError("the answer is too long")
            found = {name.lower(): value for name, value in answer.raw_headers}
            return Answered(answer.status, bytes(content), found)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise CallFailed(f"{method} {url}: {error or type(error).__name__}") from error
