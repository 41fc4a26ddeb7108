"""A server that misbehaves: what is tried again, what is not, and which error it becomes."""

import asyncio
import os
import socket

import pytest
from aiohttp import web

from sterna.engines.kubernetes.apiserver.client import Configuration, Limits, connect
from sterna.engines.kubernetes.apiserver.client.connection_settings import TokenFile
from sterna.engines.kubernetes.apiserver.client.http import Asked
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, LeaseObject, Pod
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    LEASES,
    PODS,
    AlreadyExists,
    Gone,
    LacksRight,
    Missing,
    NotLeader,
    PatchType,
    Refused,
    Throttled,
    Unreachable,
    Urgency,
    WriteConflict,
)
from sterna.model.errors import InvalidRequest
from tests.engines.kubernetes.client.doors import QUICK, found, peer, peer_client, replies, run, status
from tests.waiting import others_run

TOO_MANY = status(429, "TooManyRequests", retry_after=1)
ERROR = status(500, "InternalError", "etcdserver: request timed out")


async def get(client):
    return await client.get(CONFIG_MAPS, "a", namespace="n", shape=ConfigMapObject)


async def create(client):
    return await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace="n", shape=ConfigMapObject)


async def patch(client):
    return await client.patch(CONFIG_MAPS, "a", {"data": {}}, namespace="n", shape=ConfigMapObject)


async def patch_over(client):
    body = {"metadata": {"resourceVersion": "7"}, "data": {}}
    return await client.patch(CONFIG_MAPS, "a", body, namespace="n", shape=ConfigMapObject)


async def patch_by_steps(client):
    body = [{"op": "add", "path": "/data/x", "value": "1"}]
    return await client.patch(CONFIG_MAPS, "a", body, namespace="n", type=PatchType.JSON, shape=ConfigMapObject)


async def replace(client):
    return await client.replace(CONFIG_MAPS, "a", {"metadata": {}}, namespace="n", shape=ConfigMapObject)


async def delete(client):
    return await client.delete(PODS, "a", namespace="n")


async def delete_exactly(client):
    return await client.delete(PODS, "a", namespace="n", uid="u")


async def bind(client):
    return await client.bind("a", namespace="n", node="node-1")


READS_AND_HARMLESS = [get, patch, delete_exactly]
WRITES_THAT_COUNT = [create, patch_over, patch_by_steps, replace, delete, bind]


@pytest.mark.parametrize("trouble", [ERROR, "cut"], ids=["an error", "a cut connection"])
@pytest.mark.parametrize("ask", READS_AND_HARMLESS)
def test_r3_what_is_harmless_is_asked_again(ask, trouble):
    async def scene() -> int:
        async with peer_client(replies(trouble, trouble, found("a"))) as (server, client):
            await ask(client)
            return len(server.received)

    assert run(scene()) >= 3  # aiohttp asks some of it once more by itself


@pytest.mark.parametrize("ask", WRITES_THAT_COUNT)
def test_r3_a_write_of_unknown_outcome_is_not_repeated(ask):
    async def scene() -> int:
        async with peer_client(replies(ERROR, found("a"))) as (server, client):
            with pytest.raises(Unreachable, match="etcdserver: request timed out"):
                await ask(client)
            return len(server.received)

    assert run(scene()) == 1


@pytest.mark.parametrize("ask", [create, patch_over, bind])
def test_r3_a_write_whose_answer_was_cut_is_not_repeated(ask):
    async def scene() -> int:
        async with peer_client(replies("cut", found("a"))) as (server, client):
            with pytest.raises(Unreachable):
                await ask(client)
            return len(server.received)

    assert run(scene()) == 1


@pytest.mark.parametrize("ask", [get, create, bind, delete])
def test_r3_a_server_that_says_later_is_asked_later(ask):
    async def scene() -> int:
        async with peer_client(replies(TOO_MANY, TOO_MANY, found("a"))) as (server, client):
            await ask(client)
            return len(server.received)

    assert run(scene()) == 3


def test_r3_attempts_are_bounded_and_say_when_to_come_back():
    async def scene() -> tuple[int, float]:
        async with peer_client(replies(status(429, "TooManyRequests", retryAfterSeconds=17))) as (server, client):
            with pytest.raises(Throttled) as trouble:
                await create(client)
            return len(server.received), trouble.value.retry_after_s

    assert run(scene()) == (QUICK.attempts, 17.0)


def test_r3_nobody_there_is_safe_to_try_again_even_for_a_write():
    async def scene(port: int) -> None:
        asked: list[Asked] = []
        nobody = Configuration(server=f"http://127.0.0.1:{port}", source="the test")
        async with connect(nobody, limits=QUICK, observe=asked.append) as client:
            with pytest.raises(Unreachable, match=f"127.0.0.1:{port} cannot be reached"):
                await create(client)
        assert [one.code for one in asked] == [0] * QUICK.attempts

    with socket.socket() as taken:  # but nobody listens
        taken.bind(("127.0.0.1", 0))
        run(scene(taken.getsockname()[1]))


def test_r3_a_server_that_does_not_answer_is_given_up():
    async def reply(request, received):
        await asyncio.Event().wait()
        return found("a")

    async def scene() -> None:
        limits = Limits(request_s=1.0, attempts=2, backoff_s=0.01)
        async with peer_client(reply, limits=limits) as (server, client):
            with pytest.raises(Unreachable, match="did not answer in time"):
                await create(client)
            with pytest.raises(Unreachable, match="did not answer in time"):
                await get(client)
            assert len(server.received) == 3

    run(scene())


def test_r3_an_answer_that_is_cut_short_or_is_no_json_is_no_answer():
    async def short(request, received):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"metadata":')
        request.transport.close()
        return response

    async def scene() -> None:
        async with peer_client(short) as (_, client):
            with pytest.raises(Unreachable):
                await create(client)
        async with peer_client(replies(web.Response(text="<html>"))) as (_, client):
            with pytest.raises(Unreachable, match="cannot be read"):
                await get(client)

    run(scene())


@pytest.mark.parametrize(
    ("answer", "lacks_right"),
    [
        pytest.param(status(401, "Unauthorized"), True, id="a user that is not known"),
        pytest.param(status(403, "Forbidden", kind="configmaps"), True, id="the authorizer names no object"),
        pytest.param(status(403, "Forbidden", kind="configmaps", name="a"), False, id="a quota names the object"),
        pytest.param(status(403, "Forbidden"), False, id="a webhook names nothing"),
        pytest.param(status(400, "BadRequest"), False, id="a webhook that gives no code"),
        pytest.param(status(422, "Invalid", kind="configmaps", name="a"), False, id="a policy, or an invalid body"),
    ],
)
def test_a_user_without_the_right_is_told_apart_from_an_object_that_is_not_let_in(answer, lacks_right):
    async def scene() -> None:
        async with peer_client(replies(answer)) as (_, client):
            with pytest.raises(Refused) as raised:
                await create(client)
            assert isinstance(raised.value, LacksRight) is lacks_right
            assert lacks_right or raised.value.said == "as told"

    run(scene())


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        pytest.param(status(404, "NotFound"), Missing, "there is no ConfigMap 'a'", id="404"),
        pytest.param(status(409, "AlreadyExists"), AlreadyExists, "create ConfigMap n/a: as told", id="409 exists"),
        pytest.param(status(409, "Conflict"), WriteConflict, "as told", id="409 conflict"),
        pytest.param(status(410, "Expired"), Gone, "as told", id="410"),
        pytest.param(status(403, "Forbidden"), Refused, "as told", id="403"),
        pytest.param(status(422, "Invalid"), Refused, "as told", id="422"),
        pytest.param(web.Response(status=413, text="too large"), Refused, "too large", id="a proxy's own words"),
        pytest.param(web.Response(status=302, headers={"Location": "/"}), Refused, "HTTP 302", id="no detours"),
        pytest.param(web.Response(status=502, text="bad gateway"), Unreachable, "bad gateway", id="502"),
    ],
)
def test_r3_each_answer_says_what_to_do_next(answer, error, says):
    async def scene() -> None:
        async with peer_client(replies(answer)) as (_, client):
            with pytest.raises(error) as raised:
                await create(client)
            assert says in str(raised.value)
            if isinstance(raised.value, Refused):
                assert raised.value.code == answer.status

    run(scene())


def test_who_is_not_known_any_more_shows_itself_anew_once(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")

    async def reply(request, received):
        if received.headers["Authorization"] == "Bearer new":
            return found("a")
        stamp = token.stat()
        token.write_text("new")  # same inode, same size: only the refusal tells
        os.utime(token, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        return status(401, "Unauthorized")

    async def scene() -> None:
        async with peer(reply) as server:
            async with connect(server.configuration(identity=TokenFile(token)), limits=QUICK) as client:
                await create(client)
                assert len(server.received) == 2
            server.reply = replies(status(401, "Unauthorized"))
            async with connect(server.configuration(identity=TokenFile(token)), limits=QUICK) as client:
                with pytest.raises(Refused, match="does not know this user"):
                    await create(client)
                with pytest.raises(Refused):
                    async for _ in client.watch(PODS, since="1", shape=Pod):
                        pass
                assert len(server.received) == 6

    run(scene())


def test_r2_the_gate_is_asked_before_every_attempt_of_a_write_and_never_before_a_read():
    asked: list[int] = []

    def gate() -> None:
        asked.append(len(asked))
        if len(asked) == 3:
            raise NotLeader("the lease ran out")

    async def scene() -> None:
        async with peer_client(replies(TOO_MANY)) as (server, plain):
            client = plain.guarded(gate)
            with pytest.raises(Throttled):
                await get(client)
            assert asked == []
            before = len(server.received)
            with pytest.raises(NotLeader):
                await create(client)
            assert len(asked) == 3
            assert len(server.received) == before + 2  # the third was not sent
            server.reply = replies(found("a"))
            await create(plain)
            assert len(asked) == 3  # the lease itself is renewed without a gate

    run(scene())


@pytest.mark.parametrize("write", [create, patch, replace, delete, bind])
def test_r2_no_write_passes_a_closed_gate(write):
    def closed() -> None:
        raise NotLeader("closed")

    async def scene() -> None:
        async with peer_client(replies(found("a"))) as (server, client):
            with pytest.raises(NotLeader):
                await write(client.guarded(closed))
            assert server.received == []

    run(scene())


def test_binds_overtake_reports_on_the_wire_and_the_lease_overtakes_all():
    order: list[str] = []
    first = asyncio.Event()
    go_on = asyncio.Event()

    async def reply(request, received):
        order.append(f"{received.method} {received.path.split('/')[-1]}")
        if len(order) == 1:
            first.set()
            await go_on.wait()
        return found("a")

    async def scene() -> None:
        async with peer_client(reply, limits=Limits(in_flight=1)) as (_, client), asyncio.TaskGroup() as group:
            group.create_task(get(client))
            await first.wait()
            report = client.patch(PODS, "r", {}, namespace="n", subresource="status", shape=Pod, urgency=Urgency.REPORT)
            group.create_task(report)
            await others_run()
            for number in range(3):
                group.create_task(client.bind(f"p{number}", namespace="n", node="x"))
            await others_run()
            await client.get(LEASES, "l", namespace="n", shape=LeaseObject, urgency=Urgency.LEASE)
            assert order == ["GET a", "GET l"]
            go_on.set()
        assert order == ["GET a", "GET l", "POST binding", "POST binding", "POST binding", "PATCH status"]

    run(scene())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_be_another_path_is_refused(name):
    async def scene() -> None:
        async with peer_client(replies(found("a"))) as (server, client):
            with pytest.raises(InvalidRequest, match="name of a Pod"):
                await client.delete(PODS, name, namespace="n")
            assert server.received == []

    run(scene())


def test_a_proxy_is_gone_through():
    async def scene() -> None:
        async with peer(replies(found("a"))) as proxy:
            far = Configuration(server="http://cluster.invalid:1", proxy=proxy.server, source="the test")
            async with connect(far, limits=QUICK) as client:
                await get(client)
            assert proxy.received[0].headers["Host"] == "cluster.invalid:1"

    run(scene())
