"""Reading: one object, all of them page by page, whatever happens to them from then on, and what a container wrote."""

import random
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

import msgspec

from sterna.engines.kubernetes.apiserver.client.http import Http, Request
from sterna.engines.kubernetes.apiserver.client.paths import group_path, path_of
from sterna.engines.kubernetes.apiserver.client.response_errors import Asking
from sterna.engines.kubernetes.apiserver.client.watching import EventReader, lines
from sterna.engines.kubernetes.apiserver.objects import ObjectList, Shape
from sterna.engines.kubernetes.apiserver.port import (
    PODS,
    Gone,
    Listing,
    Missing,
    Resource,
    T,
    Unreachable,
    Urgency,
    WatchEvent,
)

_RELISTS = 3  # a listing that is overtaken by compaction more often than this is not going to succeed
_TRY_AGAIN_S = 1.0
_Decoded = TypeVar("_Decoded")


class _Served(Shape, frozen=True):
    name: str = ""


class _ServedList(Shape, frozen=True):
    resources: list[_Served] | None = None


class Reader:
    """The reading half of `Api`."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
        self._readers: dict[Any, EventReader[Any]] = {}

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        shape: type[T],
        urgency: Urgency = Urgency.READ,
    ) -> T:
        asking = Asking("get", resource.kind, name, namespace or "")
        path = path_of(resource, namespace=namespace, name=name)
        body = await self._http.ask(Request(asking=asking, method="GET", path=path, urgency=urgency))
        return self._decoded(body, shape, asking)

    async def listing(
        self, resource: Resource, *, namespace: str | None = None, labels: str = "", name: str = "", shape: type[T]
    ) -> Listing[T]:
        selected = _selected(labels, name)
        for _ in range(_RELISTS - 1):
            try:
                return await self._listing(resource, namespace, selected, shape)
            except Gone:
                continue  # compacted away between two pages: from the beginning
        return await self._listing(resource, namespace, selected, shape)

    async def _listing(
        self, resource: Resource, namespace: str | None, selected: Mapping[str, str], shape: type[T]
    ) -> Listing[T]:
        asking = Asking("list", resource.kind, namespace=namespace or "")
        path = path_of(resource, namespace=namespace)
        query = {"limit": str(self._http.limits.page), **selected}
        items: list[T] = []
        while True:
            body = await self._http.ask(Request(asking=asking, method="GET", path=path, query=query))
            page: ObjectList[T] = self._decoded(body, ObjectList[shape], asking)  # type: ignore[valid-type]
            items += page.items or ()
            if not page.metadata.continue_:
                return Listing(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        name: str = "",
        shape: type[T],
    ) -> AsyncGenerator[WatchEvent[T], None]:
        limits = self._http.limits
        lasts_s = max(1, round(limits.watch_s * random.uniform(0.8, 1.0)))  # else all watches end in the same second
        asking = Asking("watch", resource.kind, namespace=namespace or "")
        query = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(lasts_s),
            **_selected(labels, name),
        }
        request = Request(asking=asking, method="GET", path=path_of(resource, namespace=namespace), query=query)
        reader = self._reader(shape)
        async with self._http.stream(request, silence_s=lasts_s + limits.watch_slack_s) as content:
            async for line in lines(content, asking, bytes_max=limits.line_bytes_max):
                yield reader.event(line, asking)

    def _reader(self, shape: type[T]) -> EventReader[T]:
        reader = self._readers.get(shape)
        if reader is None:
            reader = self._readers[shape] = EventReader(shape)
        return reader

    async def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        query = {
            **({"container": container} if container else {}),
            **({"follow": "true"} if follow else {}),
            **({"previous": "true"} if previous else {}),
            **({"tailLines": str(tail)} if tail is not None else {}),
        }
        asking = Asking("get", "pods/log", pod, namespace)
        path = path_of(PODS, namespace=namespace, name=pod, subresource="log")
        request = Request(asking=asking, method="GET", path=path, query=query)
        silence_s = None if follow else self._http.limits.request_s  # a follower may have to wait for a line
        async with self._http.stream(request, silence_s=silence_s) as content:
            async for piece in content.iter_any():
                yield piece

    async def version(self) -> Mapping[str, Any]:
        asking = Asking("get", "/version")
        body = await self._http.ask(Request(asking=asking, method="GET", path="/version"))
        return self._decoded(body, dict[str, Any], asking)

    async def serves(self, resource: Resource) -> bool:
        path = group_path(resource)
        asking = Asking("get", path)
        try:
            body = await self._http.ask(Request(asking=asking, method="GET", path=path))
        except Missing:  # the server does not know the group, or not this version of it
            return False
        served = self._decoded(body, _ServedList, asking).resources or []
        return any(found.name == resource.plural for found in served)

    def _decoded(self, body: bytes, shape: type[_Decoded], asking: Asking) -> _Decoded:
        decoder = self._decoders.get(shape)
        if decoder is None:
            decoder = self._decoders[shape] = msgspec.json.Decoder(shape)
        try:
            decoded: _Decoded = decoder.decode(body)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{asking}: an answer that cannot be read: {error}", retry_after_s=_TRY_AGAIN_S) from None
        return decoded


def _selected(labels: str, name: str) -> dict[str, str]:
    """By name, it is a list or a watch of that one object for access rules, too (`resourceNames`)."""
    by_name = {"fieldSelector": f"metadata.name={name}"} if name else {}
    return by_name | ({"labelSelector": labels} if labels else {})
