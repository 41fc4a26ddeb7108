"""The API server as the cluster's own helpers ask it: asynchronous, many requests at once, lists that are followed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

import aiohttp
import msgspec

from tests.cluster.requests import MERGE, Access, ApiError

AT_ONCE = 32  # more make one API server on two cores no faster


class Followed(NamedTuple):
    """What became of an object. `type` is ADDED, MODIFIED, DELETED, or LISTED: this and nothing else is there now."""

    type: str
    objects: list[msgspec.Raw]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815


class _Versioned(msgspec.Struct):
    metadata: _Version = msgspec.field(default_factory=_Version)


class _List(msgspec.Struct):
    metadata: _Version
    items: list[msgspec.Raw]


class Talk:
    """Used inside one event loop. Errors of single requests are the caller's; a list that is followed never fails."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._session = aiohttp.ClientSession(
            access.server,
            headers={"Authorization": f"Bearer {access.token}"},
            connector=aiohttp.TCPConnector(limit=0, ssl=access.tls() or False),
            read_bufsize=1 << 22,  # an event is one line, and objects may have a megabyte
            timeout=aiohttp.ClientTimeout(total=None, sock_read=60),
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None, *, type: str = "") -> Any:  # noqa: A002
        content = type or (MERGE if method == "PATCH" else "application/json")
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content}
        async with self._gate, self._session.request(method, path, data=data, headers=headers) as response:
            answer = await response.read()
        if response.status >= 300:
            raise ApiError(response.status, answer)
        return json.loads(answer)

    async def follow(self, path: str, **selecting: str) -> AsyncIterator[Followed]:
        """First everything there is, then every change; everything again whenever the thread was lost."""
        while True:
            with suppress(aiohttp.ClientError, ApiError, TimeoutError, OSError):
                listing, since = await self._list(path, selecting)
                yield listing
                async for change in self._changes(path, selecting, since):
                    yield change
            await asyncio.sleep(0.2)

    async def _list(self, path: str, selecting: dict[str, str]) -> tuple[Followed, str]:
        async with self._session.get(f"{path}?{urlencode(selecting)}") as response:
            answer = await response.read()
        if response.status >= 300:
            raise ApiError(response.status, answer)
        listing = msgspec.json.decode(answer, type=_List)
        return Followed("LISTED", listing.items), listing.metadata.resourceVersion

    async def _changes(self, path: str, selecting: dict[str, str], since: str) -> AsyncIterator[Followed]:
        event_of = msgspec.json.Decoder(_Event)
        version_of = msgspec.json.Decoder(_Versioned)
        while True:
            query = {**selecting, "watch": "1", "resourceVersion": since, "allowWatchBookmarks": "true"}
            query["timeoutSeconds"] = "50"  # below the patience of the session, so that silence means a dead server
            async with self._session.get(f"{path}?{urlencode(query)}") as response:
                if response.status >= 300:
                    raise ApiError(response.status, await response.read())
                async for line in response.content:
                    event = event_of.decode(line)
                    if event.type == "ERROR":
                        return
                    since = version_of.decode(event.object).metadata.resourceVersion
                    if event.type != "BOOKMARK":
                        yield Followed(event.type, [event.object])
