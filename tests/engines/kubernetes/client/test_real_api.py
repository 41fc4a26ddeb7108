"""The verbs against a real API server: pages, watches, conflicts, binding, subresources, logs."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from sterna.engines.kubernetes.apiserver.client import Client, Limits, connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.client.http import Asked
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, KubeObject, NodeObject, Pod
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    NODES,
    PODS,
    TF_JOBS,
    AlreadyExists,
    EventType,
    Missing,
    PatchType,
    Refused,
    Resource,
    WatchEvent,
    WriteConflict,
)
from tests.cluster.fixtures import fresh_name
from tests.engines.kubernetes.client.doors import config_map, opened, run

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "localhost/none:1", "resources": {"limits": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 5, **spec},
    }


def test_a_listing_of_1200_config_maps_comes_in_pages(control_plane, namespace):
    asked: list[Asked] = []

    async def scene() -> None:
        async with connect(from_kubeconfig([control_plane.kubeconfig()]), observe=asked.append) as api:
            async with asyncio.TaskGroup() as group:
                for number in range(1200):
                    body = config_map(f"map-{number:04}", text="x" * 200)
                    group.create_task(api.create(CONFIG_MAPS, body, namespace=namespace, shape=KubeObject))
            asked.clear()
            listing = await api.listing(CONFIG_MAPS, namespace=namespace, shape=ConfigMapObject)
            ours = [found for found in listing.items if found.metadata.name.startswith("map-")]
            assert len({found.metadata.name for found in ours}) == 1200
            assert {found.data and found.data["text"] for found in ours} == {"x" * 200}
            assert [one.code for one in asked] == [200, 200, 200]
            newest = max(int(found.metadata.resource_version) for found in ours)
            assert int(listing.resource_version) >= newest

    run(scene())


def test_a_watch_tells_what_happens_after_a_listing_and_bookmarks_where_it_is(control_plane, namespace):
    async def followed(api: Client, since: str) -> list[WatchEvent[ConfigMapObject]]:
        stream = api.watch(CONFIG_MAPS, since=since, namespace=namespace, shape=ConfigMapObject)
        async with aclosing(stream):
            return [event async for event in stream if event.object.metadata.name in ("", "a")]  # the server ends it

    async def scene(watch_s: int) -> bool:
        """Says whether there was a bookmark: it comes two seconds before the end, if the server gets round to it."""
        async with opened(control_plane, limits=Limits(watch_s=watch_s)) as api:
            listing = await api.listing(CONFIG_MAPS, namespace=namespace, shape=ConfigMapObject)
            following = asyncio.ensure_future(followed(api, listing.resource_version))
            made = await api.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace, shape=ConfigMapObject)
            await api.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=namespace, shape=ConfigMapObject)
            await api.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made.metadata.uid)
            events = await following
            told = [event for event in events if event.type is not EventType.BOOKMARK]
            assert [event.type for event in told] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
            assert [event.object.data for event in told] == [{"x": "1"}, {"x": "2"}, {"x": "2"}]
            numbers = [int(event.object.metadata.resource_version) for event in told]
            assert numbers == sorted(set(numbers))  # the end has a version of its own: the store relies on it
            marks = [event for event in events if event.type is EventType.BOOKMARK]
            assert not marks or int(marks[-1].object.metadata.resource_version) >= numbers[-1]
            return bool(marks)

    assert any(run(scene(watch_s)) for watch_s in (4, 8, 16, 30))


def test_r2_a_write_over_something_newer_conflicts(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api:
            old = await api.create(CONFIG_MAPS, config_map("a"), namespace=namespace, shape=ConfigMapObject)
            await api.patch(CONFIG_MAPS, "a", {"data": {"by": "other"}}, namespace=namespace, shape=ConfigMapObject)
            stale = {"name": "a", "resourceVersion": old.metadata.resource_version}
            body = {"metadata": stale, "data": {"by": "us"}}
            with pytest.raises(WriteConflict):
                await api.patch(CONFIG_MAPS, "a", body, namespace=namespace, shape=ConfigMapObject)
            with pytest.raises(WriteConflict):
                await api.replace(CONFIG_MAPS, "a", body, namespace=namespace, shape=ConfigMapObject)
            found = await api.get(CONFIG_MAPS, "a", namespace=namespace, shape=ConfigMapObject)
            assert found.data == {"by": "other"}
            body["metadata"]["resourceVersion"] = found.metadata.resource_version
            found = await api.replace(CONFIG_MAPS, "a", body, namespace=namespace, shape=ConfigMapObject)
            assert found.data == {"by": "us"}

    run(scene())


def test_r2_a_delete_of_a_predecessor_leaves_the_successor_alone(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api:
            old = await api.create(CONFIG_MAPS, config_map("a"), namespace=namespace, shape=KubeObject)
            with pytest.raises(AlreadyExists):
                await api.create(CONFIG_MAPS, config_map("a"), namespace=namespace, shape=KubeObject)
            await api.delete(CONFIG_MAPS, "a", namespace=namespace, uid=old.metadata.uid)
            await api.create(CONFIG_MAPS, config_map("a"), namespace=namespace, shape=KubeObject)
            with pytest.raises(WriteConflict):
                await api.delete(CONFIG_MAPS, "a", namespace=namespace, uid=old.metadata.uid)
            await api.delete(CONFIG_MAPS, "a", namespace=namespace)
            with pytest.raises(Missing, match="there is no ConfigMap 'a'"):
                await api.delete(CONFIG_MAPS, "a", namespace=namespace)

    run(scene())


def test_json_patches_and_a_refused_one(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api:
            await api.create(CONFIG_MAPS, config_map("a", x="1"), namespace=namespace, shape=KubeObject)
            steps = [{"op": "replace", "path": "/data/x", "value": "2"}]
            found = await api.patch(
                CONFIG_MAPS, "a", steps, namespace=namespace, type=PatchType.JSON, shape=ConfigMapObject
            )
            assert found.data == {"x": "2"}
            await api.create(PODS, pod("p"), namespace=namespace, shape=Pod)
            with pytest.raises(Refused, match="spec") as refusal:
                await api.patch(PODS, "p", {"spec": {"nodeName": "x"}}, namespace=namespace, shape=Pod)
            assert refusal.value.code == 422

    run(scene())


def test_pods_are_bound_once(control_plane, namespace):
    node = fresh_name("bound")

    async def scene() -> None:
        async with opened(control_plane) as api:
            await api.create(NODES, {"metadata": {"name": node}}, shape=NodeObject)
            made = await api.create(PODS, pod("p", schedulerName="sterna"), namespace=namespace, shape=Pod)
            await api.bind("p", namespace=namespace, node=node, uid=made.metadata.uid)
            assert (await api.get(PODS, "p", namespace=namespace, shape=Pod)).spec.node_name == node
            with pytest.raises(WriteConflict):
                await api.bind("p", namespace=namespace, node=node)
            await api.delete(PODS, "p", namespace=namespace)  # with its own grace period: it has a node now
            ending = await api.get(PODS, "p", namespace=namespace, shape=Pod)
            assert ending.terminating
            assert ending.metadata.deletion_grace_period_seconds == 5
            await api.delete(PODS, "p", namespace=namespace, grace_s=0, uid=made.metadata.uid)
            with pytest.raises(Missing):
                await api.get(PODS, "p", namespace=namespace, shape=Pod)
            await api.delete(NODES, node)

    run(scene())


def test_status_and_scale_are_written_apart(control_plane, namespace):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"] | {"terminationGracePeriodSeconds": 0}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }

    async def scene() -> None:
        async with opened(control_plane) as api:
            made = await api.create(DEPLOYMENTS, body, namespace=namespace, shape=KubeObject)
            scaled = await api.patch(
                DEPLOYMENTS, "d", {"spec": {"replicas": 2}}, namespace=namespace, subresource="scale", shape=KubeObject
            )
            assert scaled.metadata.name == "d"
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/d"
            raw = control_plane.api().get(path)
            assert raw["spec"]["replicas"] == 2
            assert raw["metadata"]["uid"] == made.metadata.uid

    run(scene())


def test_what_the_server_is_and_serves(control_plane):
    async def scene() -> None:
        async with opened(control_plane) as api:
            assert (await api.version())["major"] == "1"
            assert await api.serves(PODS)
            assert await api.serves(DEPLOYMENTS)
            assert not await api.serves(TF_JOBS._replace(group="nobody.example"))
            assert not await api.serves(PODS._replace(plural="flocks"))

    run(scene())


def test_logs_of_a_pod_that_has_none_are_an_error_of_the_port(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api:
            with pytest.raises(Missing):
                async for _ in api.logs("absent", namespace=namespace):
                    pass
            await api.create(PODS, pod("p"), namespace=namespace, shape=Pod)
            pieces = [piece async for piece in api.logs("p", namespace=namespace, container="main", tail=10)]
            assert b"".join(pieces) == b""  # nobody runs it yet
            with pytest.raises(Refused, match="container nobody is not valid"):
                async for _ in api.logs("p", namespace=namespace, container="nobody"):
                    pass

    run(scene())
