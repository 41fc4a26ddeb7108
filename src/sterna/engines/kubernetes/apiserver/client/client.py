"""The API of a cluster over HTTP: verbs become requests, answers become shapes. How they travel is `http`'s matter."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.client.connection_settings import Configuration
from sterna.engines.kubernetes.apiserver.client.http import Asked, Gate, Http, Request
from sterna.engines.kubernetes.apiserver.client.object_reading import Reader
from sterna.engines.kubernetes.apiserver.client.paths import path_of
from sterna.engines.kubernetes.apiserver.client.request_limits import DEFAULT, Limits
from sterna.engines.kubernetes.apiserver.client.response_errors import Asking
from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.apiserver.port import PODS, PatchType, Resource, T, Urgency
from sterna.engines.kubernetes.process.clock import Clock

FIELD_MANAGER = "sterna"


@asynccontextmanager
async def connect(
    configuration: Configuration,
    *,
    limits: Limits = DEFAULT,
    observe: Callable[[Asked], None] | None = None,
    clock: Clock | None = None,
) -> AsyncIterator["Client"]:
    """Open the door; nothing is sent yet. `observe` is told of every request that was sent."""
    http = Http(configuration, limits, observe=observe, clock=clock)
    try:
        yield Client(http)
    finally:
        await http.close()


class Client(Reader):
    """Implements `Api`. `guarded` gives another one over the same connections."""

    def __init__(self, http: Http, *, gate: Gate | None = None) -> None:
        super().__init__(http)
        self._gate = gate

    def guarded(self, gate: Gate) -> "Client":
        """The same, but `gate` is asked right before every write is sent, and what it raises is raised."""
        return Client(self._http, gate=gate)

    async def create(
        self,
        resource: Resource,
        body: Body,
        *,
        namespace: str | None = None,
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
        dry_run: bool = False,
    ) -> T:
        name = str(body.get("metadata", {}).get("name", ""))
        asking = Asking("create", resource.kind, name, namespace or "")
        path = path_of(resource, namespace=namespace)
        query = {"dryRun": "All"} if dry_run else {}
        answer = await self._write(asking, "POST", path, _typed(resource, body), query=query, urgency=urgency)
        return self._decoded(answer, shape, asking)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body | list[Any],
        *,
        namespace: str | None = None,
        subresource: str = "",
        type: PatchType = PatchType.MERGE,  # noqa: A002
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
    ) -> T:
        asking = Asking("patch", _kind(resource, subresource), name, namespace or "")
        path = path_of(resource, namespace=namespace, name=name, subresource=subresource)
        answer = await self._write(
            asking,
            "PATCH",
            path,
            body,
            content_type=type.value,
            urgency=urgency,
            repeatable=type is not PatchType.JSON and not _has_version(body),
        )
        return self._decoded(answer, shape, asking)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
    ) -> T:
        asking = Asking("update", _kind(resource, subresource), name, namespace or "")
        path = path_of(resource, namespace=namespace, name=name, subresource=subresource)
        content = body if subresource else _typed(resource, body)  # a scale is of another kind than what it scales
        return self._decoded(await self._write(asking, "PUT", path, content, urgency=urgency), shape, asking)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_s: int | None = None,
        urgency: Urgency = Urgency.PLACE,
    ) -> None:
        options: Body = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        asking = Asking("delete", resource.kind, name, namespace or "")
        path = path_of(resource, namespace=namespace, name=name)
        repeatable = uid is not None  # by name alone it might hit a successor
        await self._write(asking, "DELETE", path, options, query=None, urgency=urgency, repeatable=repeatable)

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace} | ({"uid": uid} if uid is not None else {}),
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = path_of(PODS, namespace=namespace, name=pod, subresource="binding")
        await self._write(Asking("create", "pods/binding", pod, namespace), "POST", path, body)

    async def _write(
        self,
        asking: Asking,
        method: str,
        path: str,
        body: Body | list[Any],
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = MappingProxyType({}),  # None: without a field manager
        urgency: Urgency = Urgency.PLACE,
        repeatable: bool = False,
    ) -> bytes:
        return await self._http.ask(
            Request(
                asking=asking,
                method=method,
                path=path,
                query=None if query is None else {"fieldManager": FIELD_MANAGER, **query},
                body=msgspec.json.encode(body),
                content_type=content_type,
                urgency=urgency,
                gate=self._gate,
                repeatable=repeatable,
            )
        )


def _typed(resource: Resource, body: Body) -> Body:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _kind(resource: Resource, subresource: str) -> str:
    return f"{resource.plural}/{subresource}" if subresource else resource.kind


def _has_version(body: Body | list[Any]) -> bool:
    return isinstance(body, dict) and "resourceVersion" in (body.get("metadata") or {})
