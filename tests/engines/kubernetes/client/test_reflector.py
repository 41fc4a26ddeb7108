"""Following one resource: through cuts, late watches, refusals and a server that goes away, until all is known."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.client import Client, Limits, connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, Meta
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    EventType,
    Gone,
    Listing,
    Missing,
    Refused,
    Resource,
    Unreachable,
    WatchEvent,
)
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.cache.reflector import FAILURES_BEFORE_RELIST, Reflector
from tests.engines.kubernetes.client.doors import config_map, opened, run, until

LABELS = "followed=yes"


def labelled(name: str, **data: str) -> dict[str, Any]:
    body = config_map(name, **data)
    return {**body, "metadata": {"name": name, "labels": {"followed": "yes"}}}


class Troubled(Client):
    """The real client, except for what the test has it suffer next."""

    def __init__(self, client: Client) -> None:
        super().__init__(client._http)
        self.listings = 0
        self.watches: list[str] = []
        self.fail_listing: list[Exception] = []
        self.fail_watch: list[Exception] = []
        self.cuts = 0  # so many of the next events are the last of their watch
        self.repeat = False
        self.told: list[WatchEvent[Any]] = []  # after the next event, once

    async def listing(
        self, resource: Resource, *, namespace: str | None = None, labels: str = "", name: str = "", shape: type[Any]
    ) -> Listing[Any]:
        self.listings += 1
        if self.fail_listing:
            raise self.fail_listing.pop(0)
        return await super().listing(resource, namespace=namespace, labels=labels, name=name, shape=shape)

    async def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        name: str = "",
        shape: type[Any],
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        self.watches.append(since)
        if self.fail_watch:
            raise self.fail_watch.pop(0)
        events = super().watch(resource, since=since, namespace=namespace, labels=labels, name=name, shape=shape)
        async with aclosing(events):
            async for event in events:
                for _ in range(2 if self.repeat else 1):
                    yield event
                while self.told:
                    yield self.told.pop(0)
                if self.cuts:
                    self.cuts -= 1
                    raise Unreachable("cut", retry_after_s=0.0)


class Following:
    def __init__(self, api: Troubled, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.store: Store[ConfigMapObject] = Store()
        self.heard: list[tuple[str, str]] = []
        self.store.listen(self._on_change)
        self.reflector = Reflector(
            api,
            CONFIG_MAPS,
            self.store,
            shape=ConfigMapObject,
            namespace=namespace,
            labels=LABELS,
            pause_s=0.01,
            pause_max_s=0.2,
        )

    def _on_change(self, before: ConfigMapObject | None, after: ConfigMapObject | None) -> None:
        found = after or before
        assert found is not None
        what = "added" if before is None else "removed" if after is None else "changed"
        self.heard.append((what, found.metadata.name))

    async def make(self, name: str, **data: str) -> ConfigMapObject:
        return await self.api.create(
            CONFIG_MAPS, labelled(name, **data), namespace=self.namespace, shape=ConfigMapObject
        )

    async def remove(self, name: str) -> None:
        await self.api.delete(CONFIG_MAPS, name, namespace=self.namespace)

    def names(self) -> set[str]:
        return {found.metadata.name for found in self.store}


@asynccontextmanager
async def following(control_plane, namespace, *, limits: Limits | None = None):
    async with opened(control_plane, limits=limits) as client:
        scene = Following(Troubled(client), namespace)
        task = asyncio.ensure_future(scene.reflector.run())
        try:
            yield scene
            assert not task.done(), "the reflector ended"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_what_is_there_is_listed_and_what_happens_is_followed(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            await scene.reflector.synced.wait()
            await scene.make("a", x="1")
            await until(lambda: scene.names() == {"a"}, "a is known")
            await scene.api.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=namespace, shape=ConfigMapObject)
            await until(lambda: len(scene.heard) == 2, "its change is known")
            await scene.remove("a")
            await until(lambda: not scene.names(), "its end is known")
            assert scene.heard == [("added", "a"), ("changed", "a"), ("removed", "a")]
            assert scene.api.listings == 1

    run(play())


def test_s4_reflectors_of_one_name_each_share_a_store_and_see_nothing_else(control_plane, namespace):
    async def play() -> None:
        async with opened(control_plane) as client:
            scene = Following(Troubled(client), namespace)
            named = [
                Reflector(client, CONFIG_MAPS, scene.store, shape=ConfigMapObject, namespace=namespace, name=name)
                for name in ("one", "two")
            ]
            await scene.make("one")
            await scene.make("foreign")
            tasks = [asyncio.ensure_future(reflector.run()) for reflector in named]
            for reflector in named:
                await reflector.synced.wait()
            assert scene.names() == {"one"}
            await scene.make("two")
            await scene.make("foreign-too")
            await until(lambda: scene.names() == {"one", "two"}, "what came is known")
            await scene.remove("one")
            await until(lambda: scene.names() == {"two"}, "its end is known")
            assert {name for _, name in scene.heard} == {"one", "two"}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(play())


def test_r3_a_cut_watch_goes_on_from_the_last_event(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            scene.api.cuts = 5
            await scene.reflector.synced.wait()
            for number in range(6):
                await scene.make(f"m{number}")
            await until(lambda: len(scene.names()) == 6, "all are known")
            assert scene.heard == [("added", f"m{number}") for number in range(6)]
            assert scene.api.listings == 1
            assert scene.api.watches == sorted(set(scene.api.watches), key=int)
            await until(lambda: not scene.reflector.trouble, "trouble is over")

    run(play())


def test_r3_a_watch_that_is_too_late_lists_again_and_tells_differences_only(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            await scene.make("stays")
            await scene.make("goes")
            await until(lambda: len(scene.names()) == 2, "both are known")
            scene.api.fail_watch = [Gone("too old")]
            scene.api.cuts = 1
            await scene.remove("goes")  # heard, and cut after it
            await scene.make("comes")
            await until(lambda: scene.names() == {"stays", "comes"}, "all is known again")
            assert scene.api.listings == 2
            assert sorted(scene.heard[2:]) == [("added", "comes"), ("removed", "goes")]

    run(play())


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([Unreachable("down", retry_after_s=1.0)] * 3, id="a server that is down"),
        pytest.param([Missing("kind", "configmaps")] * 3, id="a kind that is not installed yet"),
        pytest.param([Refused("not yours", code=403)] * 3, id="rights that are not granted yet"),
        pytest.param([RuntimeError("a bug")] * 3, id="a bug"),
    ],
)
def test_r3_the_first_listing_is_tried_until_it_succeeds(control_plane, namespace, trouble):
    async def play() -> None:
        async with opened(control_plane) as client:
            scene = Following(Troubled(client), namespace)
            scene.api.fail_listing = list(trouble)
            await scene.make("a")
            task = asyncio.ensure_future(scene.reflector.run())
            await until(lambda: bool(scene.reflector.trouble), "the trouble is told")
            assert str(trouble[0]) in scene.reflector.trouble
            assert not scene.reflector.synced.is_set()
            await scene.reflector.synced.wait()
            assert scene.names() == {"a"}
            assert scene.reflector.trouble == ""
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(play())


def test_r3_repeated_events_are_told_once(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            scene.api.repeat = True
            await scene.reflector.synced.wait()
            await scene.make("a")
            await until(lambda: scene.names() == {"a"}, "a is known")
            await scene.remove("a")
            await until(lambda: not scene.names(), "its end is known")
            await scene.make("b")
            await until(lambda: scene.names() == {"b"}, "b is known")
            assert scene.heard == [("added", "a"), ("removed", "a"), ("added", "b")]

    run(play())


def test_r3_a_place_from_which_no_watch_succeeds_is_given_up(control_plane, namespace):
    async def play() -> None:
        async with opened(control_plane) as client:
            scene = Following(Troubled(client), namespace)
            scene.api.fail_watch = [Unreachable("unreadable event", retry_after_s=0.0)] * FAILURES_BEFORE_RELIST
            task = asyncio.ensure_future(scene.reflector.run())
            await until(lambda: scene.api.listings == 2, "listed again")
            await scene.make("a")
            await until(lambda: scene.names() == {"a"}, "a is known")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(play())


def test_r3_a_listener_that_raises_does_not_end_it(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            raised: list[str] = []

            def stumble(before: ConfigMapObject | None, after: ConfigMapObject | None) -> None:
                if not raised:
                    raised.append("once")
                    raise ValueError("a bug of the listener")

            await scene.reflector.synced.wait()
            scene.store.listen(stumble)
            await scene.make("a")
            await until(lambda: bool(raised), "the bug showed")
            await scene.make("b")
            await until(lambda: scene.names() == {"a", "b"}, "it goes on")

    run(play())


def test_watches_that_the_server_ends_are_begun_again_without_a_listing(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace, limits=Limits(watch_s=1)) as scene:
            await until(lambda: len(scene.api.watches) >= 3, "two watches ended")
            await scene.make("a")
            await until(lambda: scene.names() == {"a"}, "a is known")
            assert scene.api.listings == 1
            assert scene.reflector.trouble == ""

    run(play())


def test_r4_our_own_writes_are_known_before_the_watch_tells(control_plane, namespace):
    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            await scene.reflector.synced.wait()
            for number in range(20):
                made = await scene.make(f"m{number}")
                scene.store.put(made)
                assert f"m{number}" in scene.names()
            await scene.make("last")
            await until(lambda: "last" in scene.names(), "the watch caught up")
            assert scene.heard == [*(("added", f"m{number}") for number in range(20)), ("added", "last")]

    run(play())


def test_r3_a_cluster_that_was_set_back_to_an_older_state_is_believed(control_plane, namespace):
    """A backup of etcd was put back: what the store holds is from a future that will not come."""

    async def play() -> None:
        async with following(control_plane, namespace) as scene:
            await scene.make("real")
            await until(lambda: scene.names() == {"real"}, "it is known")
            real = scene.store.get("real", namespace)
            assert real is not None
            future = Meta(name="future", namespace=namespace, uid="f", resource_version="999999999")
            ahead = msgspec.structs.replace(
                real,
                metadata=msgspec.structs.replace(real.metadata, resource_version="999999998"),
                data={"x": "future"},
            )
            for found in (ConfigMapObject(metadata=future), ahead):
                scene.api.told.append(WatchEvent(EventType.MODIFIED, found))
            scene.api.cuts = 1
            await scene.make("wakes")
            scene.api.fail_watch = [Gone("of the future")]
            await until(lambda: scene.names() == {"real", "wakes"} and scene.api.listings == 2, "it is believed")
            believed = scene.store.get("real", namespace)
            assert believed is not None
            assert believed.metadata.resource_version == real.metadata.resource_version

    run(play())


@pytest.mark.slow
def test_r3_an_api_server_that_is_restarted_is_followed_again(control_plane, namespace):
    async def play() -> None:
        limits = Limits(backoff_s=0.05, backoff_max_s=0.2)
        async with following(control_plane, namespace, limits=limits) as scene:
            await scene.make("before")
            await until(lambda: scene.names() == {"before"}, "it is known")
            control_plane.stop_apiserver()
            try:
                await until(lambda: bool(scene.reflector.trouble), "the trouble is noticed")
            finally:
                await asyncio.to_thread(control_plane.start_apiserver)
            await scene.make("after")
            await scene.remove("before")
            await until(lambda: scene.names() == {"after"}, "all is known again")
            await until(lambda: not scene.reflector.trouble, "trouble is over")
        # A server that has just started does not know what was before: what is asked from there is gone.
        async with connect(from_kubeconfig([control_plane.kubeconfig()])) as api:
            with pytest.raises(Gone):
                await anext(api.watch(CONFIG_MAPS, since="1", namespace=namespace, shape=ConfigMapObject))

    run(play())
