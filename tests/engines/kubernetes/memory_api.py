"""A cluster in memory, behind the port that the operator talks through (`engines/kubernetes/apiserver/port.py`).

For what needs no API server: how the operator's work grows with the number of objects, and what happens between two of
its requests. Objects have versions, a write over an older version is a conflict, status is a subresource, and watches
tell what happened since a version. Nothing is validated, pods come up as soon as they have a node, and whatever is
deleted is gone at once. What a real API server does is asked of a real one (`tests/kubernetes`).
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.port import (
    PODS,
    AlreadyExists,
    EventType,
    Listing,
    Missing,
    Resource,
    WatchEvent,
    WriteConflict,
)

Body = dict[str, Any]
_Key = tuple[str, str]  # namespace, name


class MemoryCluster:
    """What is stored, and who watches it."""

    def __init__(self) -> None:
        self.objects: dict[Resource, dict[_Key, Body]] = defaultdict(dict)
        self.requests: Counter[tuple[str, str]] = Counter()  # verb and kind
        self.made: Counter[tuple[str, str]] = Counter()  # kind and name: how often there was a new one
        self._version = 0
        self._watches: dict[Resource, list[asyncio.Queue[tuple[EventType, bytes]]]] = defaultdict(list)

    def put(self, resource: Resource, body: Body, event: EventType = EventType.ADDED) -> Body:
        self._version += 1
        meta = body.setdefault("metadata", {})
        meta.setdefault("namespace", "")
        meta.setdefault("uid", f"{resource.plural}-{meta['namespace']}-{meta['name']}-{self._version}")
        meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        meta.setdefault("generation", 1)
        meta["resourceVersion"] = str(self._version)
        body |= {"apiVersion": resource.api_version, "kind": resource.kind}
        key = (meta["namespace"], meta["name"])
        if key not in self.objects[resource]:
            self.made[resource.kind, meta["name"]] += 1
        if event is EventType.DELETED:
            del self.objects[resource][key]
        else:
            self.objects[resource][key] = body
        text = json.dumps(body).encode()
        for watch in self._watches[resource]:
            watch.put_nowait((event, text))
        return body

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Body | None:
        return self.objects[resource].get((namespace or "", name))

    @property
    def version(self) -> str:
        return str(self._version)

    def watched(self, resource: Resource) -> "asyncio.Queue[tuple[EventType, bytes]]":
        line: asyncio.Queue[tuple[EventType, bytes]] = asyncio.Queue()
        self._watches[resource].append(line)
        return line


class MemoryApi:
    """Implements `Api` as far as the operator uses it."""

    def __init__(self, cluster: MemoryCluster, gate: Callable[[], None] = lambda: None) -> None:
        self.cluster = cluster
        self._gate = gate

    def guarded(self, gate: Callable[[], None]) -> "MemoryApi":
        return MemoryApi(self.cluster, gate)

    async def serves(self, _: Resource) -> bool:
        return True

    async def version(self) -> Mapping[str, Any]:
        return {"major": "1", "minor": "20"}

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None, shape: Any, **_: Any) -> Any:
        self._count("get", resource)
        return _as(shape, self._found(resource, name, namespace))

    async def listing(
        self, resource: Resource, *, namespace: str | None = None, labels: str = "", name: str = "", shape: Any
    ) -> Listing[Any]:
        self._count("list", resource)
        found = [body for body in self.cluster.objects[resource].values() if _is_meant(body, namespace, labels, name)]
        return Listing([_as(shape, body) for body in found], self.cluster.version)

    async def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        name: str = "",
        shape: Any,
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        line = self.cluster.watched(resource)
        for body in list(self.cluster.objects[resource].values()):  # what came between the listing and now
            if int(body["metadata"]["resourceVersion"]) > int(since) and _is_meant(body, namespace, labels, name):
                yield WatchEvent(EventType.MODIFIED, _as(shape, body))
        while True:
            event, text = await line.get()
            if _is_meant(json.loads(text), namespace, labels, name):
                yield WatchEvent(event, msgspec.json.decode(text, type=shape))

    async def create(
        self,
        resource: Resource,
        body: Body,
        *,
        namespace: str | None = None,
        shape: Any,
        dry_run: bool = False,
        **_: Any,
    ) -> Any:
        self._write("dry run" if dry_run else "create", resource)
        made = json.loads(json.dumps(body))
        made.setdefault("metadata", {})["namespace"] = namespace or ""
        if dry_run:
            return _as(shape, made)
        name = made["metadata"]["name"]
        if self.cluster.find(resource, name, namespace) is not None:
            raise AlreadyExists(f"{resource.kind} {namespace}/{name} is there")
        if resource == PODS and made.get("spec", {}).get("nodeName"):
            made["status"] = _running(made)
        return _as(shape, self.cluster.put(resource, made))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        shape: Any,
        **_: Any,
    ) -> Any:
        self._write("patch", resource)
        found = self._found(resource, name, namespace)
        expected = body.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if expected.get(field) not in (None, found["metadata"][field]):
                raise WriteConflict(f"{resource.kind} {namespace}/{name} has another {field} by now")
        change = {"status": body["status"]} if subresource == "status" else body
        kept = {field: found["metadata"][field] for field in ("uid", "name", "namespace")}
        merged = _merged(json.loads(json.dumps(found)), change)
        merged["metadata"] |= kept
        return _as(shape, self.cluster.put(resource, merged, EventType.MODIFIED))

    async def replace(
        self, resource: Resource, name: str, body: Body, *, namespace: str | None = None, shape: Any, **_: Any
    ) -> Any:
        self._write("replace", resource)
        meta = self._found(resource, name, namespace)["metadata"]
        new = json.loads(json.dumps(body))
        new["metadata"] = {**meta, **new.get("metadata", {})}
        return _as(shape, self.cluster.put(resource, new, EventType.MODIFIED))

    async def delete(
        self, resource: Resource, name: str, *, namespace: str | None = None, uid: str | None = None, **_: Any
    ) -> None:
        self._write("delete", resource)
        found = self._found(resource, name, namespace)
        if uid not in (None, found["metadata"]["uid"]):
            raise WriteConflict(f"{resource.kind} {namespace}/{name} is another one by now")
        self.cluster.put(resource, found, EventType.DELETED)

    def _found(self, resource: Resource, name: str, namespace: str | None) -> Body:
        found = self.cluster.find(resource, name, namespace)
        if found is None:
            raise Missing(resource.kind, f"{namespace}/{name}")
        return found

    def _write(self, verb: str, resource: Resource) -> None:
        self._gate()
        self._count(verb, resource)

    def _count(self, verb: str, resource: Resource) -> None:
        self.cluster.requests[verb, resource.kind] += 1


def memory_api(cluster: MemoryCluster) -> Any:
    """As far as it goes, an `Api`."""
    return MemoryApi(cluster)


def _as(shape: Any, body: Body) -> Any:
    return msgspec.json.decode(json.dumps(body).encode(), type=shape)


def _is_meant(body: Body, namespace: str | None, labels: str, name: str) -> bool:
    meta = body["metadata"]
    if (namespace is not None and meta["namespace"] != namespace) or (name and meta["name"] != name):
        return False
    key, _, value = labels.partition("=")
    return not labels or (meta.get("labels") or {}).get(key) == value


def _merged(base: Body, change: Mapping[str, Any]) -> Body:
    """RFC 7386."""
    for key, value in change.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, Mapping):
            there = base.get(key)
            base[key] = _merged(there if isinstance(there, dict) else {}, value)
        else:
            base[key] = value
    return base


def _running(pod: Body) -> Body:
    names = [container.get("name", "") for container in pod["spec"].get("containers", [])]
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": name, "ready": True, "state": state} for name in names],
    }
