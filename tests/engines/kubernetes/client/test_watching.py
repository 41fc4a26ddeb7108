"""Watches: lines however they are cut, the server's own word that it is over, and pages that are overtaken."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, aclosing
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.apiserver.client import Limits
from sterna.engines.kubernetes.apiserver.client.response_errors import Asking
from sterna.engines.kubernetes.apiserver.client.watching import EventReader, lines
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, JobObject, KubeObject, ObjectList, Pod
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    PODS,
    EventType,
    Gone,
    Throttled,
    Unreachable,
    WatchEvent,
)
from tests.engines.kubernetes.client.doors import QUICK, peer_client, run, status

ASKING = Asking("watch", "Pod")


def line(kind: str, version: str = "1", **more: Any) -> bytes:
    event = {"type": kind, "object": {"kind": "Pod", "metadata": {"name": "p", "resourceVersion": version}, **more}}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


class Pieces:
    """What `lines` needs of a stream."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def iter_any(self):
        for piece in self._pieces:
            yield piece


async def split(pieces: list[bytes], *, bytes_max: int = 10_000) -> list[bytes]:
    return [found async for found in lines(Pieces(pieces), ASKING, bytes_max=bytes_max)]  # type: ignore[arg-type]


@given(texts=st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b""))), data=st.data())
def test_r3_lines_are_the_same_however_the_network_cuts_them(texts, data):
    stream = b"".join(text + b"\n" for text in texts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert run(split(pieces)) == [text for text in texts if text]


def test_r3_a_stream_that_ends_within_an_event_is_a_cut():
    with pytest.raises(Unreachable, match="ended within an event"):
        run(split([b'{"type":"ADD']))


def test_an_event_without_end_is_given_up():
    with pytest.raises(Unreachable, match="more than 100 bytes"):
        run(split([b"x" * 60, b"x" * 60], bytes_max=100))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(line("ADDED", "3"), (EventType.ADDED, "3"), id="an event"),
        pytest.param(
            line("BOOKMARK", "9", spec={"containers": None}), (EventType.BOOKMARK, "9"), id="a bookmark, as 1.20 has it"
        ),
        pytest.param(
            b'{"object":{"metadata":{"resourceVersion":"9"},"spec":{"containers":null}},"type":"BOOKMARK"}',
            (EventType.BOOKMARK, "9"),
            id="fields in another order",
        ),
    ],
)
def test_events_are_read(text, expected):
    event: WatchEvent[Pod] = EventReader(Pod).event(text, ASKING)
    assert (event.type, event.object.metadata.resource_version) == expected


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        pytest.param(
            b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old","status":"Failure"}}',
            Gone,
            "too old",
            id="too late",
        ),
        pytest.param(
            b'{"object":{"code":410,"reason":"Gone","message":"too old","status":"Failure"},"type":"ERROR"}',
            Gone,
            "too old",
            id="too late, in another order",
        ),
        pytest.param(b'{"type":"ERROR","object":{"code":500,"message":"oh"}}', Unreachable, "oh", id="another error"),
        pytest.param(b'{"type":"ERROR","object":{"code":429,"message":"oh"}}', Throttled, "oh", id="too many"),
        pytest.param(b'{"type":"ERROR","object":{}}', Unreachable, "HTTP 500", id="an error without words"),
        pytest.param(b'{"type":"NOVEL","object":{}}', Unreachable, "cannot be read", id="an unknown type"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":3}}', Unreachable, "cannot be read", id="another shape"),
        pytest.param(b'{"type":"ADDED","obj', Unreachable, "cannot be read", id="not JSON"),
    ],
)
def test_r3_what_is_no_event_is_an_error_of_the_port(text, error, says):
    with pytest.raises(error, match=says):
        EventReader(Pod).event(text, ASKING)


# -- over the wire ----------------------------------------------------------------------------------------------------


def streaming(*pieces: bytes, cut: bool = False, hang: bool = False):
    async def reply(request, received):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if cut:
            request.transport.close()
        if hang:
            await asyncio.Event().wait()
        return response

    return reply


async def watched(client, shape=Pod) -> list[Any]:
    async with aclosing(client.watch(PODS, since="5", shape=shape)) as events:
        return [event async for event in events]


def test_a_watch_asks_for_bookmarks_and_for_an_end():
    async def scene() -> None:
        async with peer_client(streaming(line("ADDED"), line("MODIFIED", "2"))) as (server, client):
            assert [event.type for event in await watched(client)] == [EventType.ADDED, EventType.MODIFIED]
            query = server.received[0].query
            assert (query["watch"], query["resourceVersion"], query["allowWatchBookmarks"]) == ("true", "5", "true")
            assert 0.8 * QUICK.watch_s - 1 <= int(query["timeoutSeconds"]) <= QUICK.watch_s

    run(scene())


def test_an_event_of_two_megabytes_arrives():
    big = line("ADDED", "7", data={"x": "y" * (2 << 20)})

    async def scene() -> None:
        async with peer_client(streaming(line("ADDED", "6"), big, line("ADDED", "8"))) as (_, client):
            events = await watched(client, ConfigMapObject)
            assert [event.object.metadata.resource_version for event in events] == ["6", "7", "8"]
            assert len(events[1].object.data["x"]) == 2 << 20

    run(scene())


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(streaming(line("ADDED"), cut=True), id="between events"),
        pytest.param(streaming(line("ADDED"), b'{"type":', cut=True), id="within an event"),
    ],
)
def test_r3_a_cut_watch_gives_what_came_and_then_says_so(reply):
    async def scene() -> None:
        async with peer_client(reply) as (_, client), aclosing(client.watch(PODS, since="5", shape=Pod)) as events:
            assert (await anext(events)).type is EventType.ADDED
            with pytest.raises(Unreachable):
                await anext(events)

    run(scene())


def test_r3_a_silent_watch_is_broken_off():
    async def scene() -> None:
        limits = Limits(watch_s=1, watch_slack_s=0.2)
        async with peer_client(streaming(line("ADDED"), hang=True), limits=limits) as (_, client):
            with pytest.raises(Unreachable, match="did not answer in time"):
                await watched(client)

    run(scene())


def test_watches_take_no_turn():
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            narrow = peer_client(streaming(line("ADDED"), hang=True), limits=Limits(in_flight=1))
            server, client = await stack.enter_async_context(narrow)
            for _ in range(3):
                events = await stack.enter_async_context(aclosing(client.watch(PODS, since="1", shape=Pod)))
                await anext(events)
            server.reply = streaming(b'{"major":"1"}')
            assert await client.version() == {"major": "1"}

    run(scene())


def test_an_object_does_not_keep_the_answer_alive_that_it_came_in():
    answer = b'{"items":[{"spec":{"a":1},"status":{"b":2}}],"padding":"' + b"x" * 1000 + b'"}'
    before = sys.getrefcount(answer)
    listing = msgspec.json.decode(answer, type=ObjectList[JobObject])
    assert sys.getrefcount(answer) == before
    assert listing.items is not None
    assert (bytes(listing.items[0].spec), bytes(listing.items[0].status)) == (b'{"a":1}', b'{"b":2}')


# -- pages ------------------------------------------------------------------------------------------------------------


def page(names: list[str], *, more: str = "", version: str = "7") -> web.Response:
    items = [{"metadata": {"name": name}} for name in names]
    return web.json_response({"metadata": {"resourceVersion": version, "continue": more}, "items": items or None})


def test_r3_a_listing_overtaken_by_compaction_begins_again():
    gone = True

    async def reply(request, received):
        nonlocal gone
        if "continue" not in received.query:
            return page(["a", "b"], more="next", version="8" if not gone else "7")
        if gone:
            gone = False
            return status(410, "Expired", "The provided continue parameter is too old")
        return page(["c"], version="8")

    async def scene() -> None:
        async with peer_client(reply) as (server, client):
            listing = await client.listing(CONFIG_MAPS, labels="x=y", shape=KubeObject)
            assert [found.metadata.name for found in listing.items] == ["a", "b", "c"]
            assert listing.resource_version == "8"
            assert [received.query.get("continue") for received in server.received] == [None, "next", None, "next"]
            assert all(received.query["labelSelector"] == "x=y" for received in server.received)

    run(scene())


def test_an_empty_listing_may_be_null():
    async def reply(request, received):
        return page([])

    async def scene() -> None:
        async with peer_client(reply) as (_, client):
            assert (await client.listing(CONFIG_MAPS, shape=KubeObject)).items == []

    run(scene())
