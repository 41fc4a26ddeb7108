"""The door to the API server with a fuse before every write of an object. All but that is passed on as it is.

Events have a budget of their own (`status/event_recorder.py`), and a Lease must be renewed whatever happens; neither is
counted here, nor is what makes nothing: reviews of tokens, and tries.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.apiserver.port import (
    EVENTS,
    LEASES,
    PODS,
    TOKEN_REVIEWS,
    Api,
    PatchType,
    Resource,
    T,
    Urgency,
)
from sterna.engines.kubernetes.apiserver.write_fuse import WriteFuse, Written

_UNCOUNTED = frozenset({EVENTS, LEASES, TOKEN_REVIEWS})


class FusedApi:
    """Implements `Api` over another one. `TooOften`: nothing was sent, see `WriteFuse`."""

    def __init__(self, api: Api, fuse: WriteFuse) -> None:
        self._api = api
        self._fuse = fuse
        self.get = api.get
        self.listing = api.listing
        self.watch = api.watch
        self.version = api.version
        self.serves = api.serves

    def guarded(self, gate: Callable[[], None]) -> "FusedApi":
        return FusedApi(self._api.guarded(gate), self._fuse)

    def logs(self, *given: Any, **named: Any) -> AsyncGenerator[bytes, None]:
        return self._api.logs(*given, **named)

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
        if not dry_run:
            self._spend(resource, namespace, str((body.get("metadata") or {}).get("name", "")))
        return await self._api.create(
            resource, body, namespace=namespace, shape=shape, urgency=urgency, dry_run=dry_run
        )

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
        self._spend(resource, namespace, name, subresource)
        return await self._api.patch(
            resource,
            name,
            body,
            namespace=namespace,
            subresource=subresource,
            type=type,
            shape=shape,
            urgency=urgency,
        )

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
        self._spend(resource, namespace, name, subresource)
        return await self._api.replace(
            resource, name, body, namespace=namespace, subresource=subresource, shape=shape, urgency=urgency
        )

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
        self._spend(resource, namespace, name, "deletion")
        await self._api.delete(resource, name, namespace=namespace, uid=uid, grace_s=grace_s, urgency=urgency)

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        self._spend(PODS, namespace, pod, "binding")
        await self._api.bind(pod, namespace=namespace, node=node, uid=uid)

    def _spend(self, resource: Resource, namespace: str | None, name: str, part: str = "") -> None:
        if resource not in _UNCOUNTED:
            self._fuse.spend(Written(resource, namespace or "", name, part))
