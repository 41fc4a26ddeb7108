"""The scheduler's door on the local engine: moves that are asked for as container-migration asks, and reports."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from sterna.engines.door.door import OUTCOME, Door
from sterna.interfaces.api.api_server import serving
from sterna.interfaces.api.engine_home import own_token
from sterna.interfaces.api.loopback_listener import listening
from sterna.model.errors import InvalidRequest
from sterna.protocol.reports import Batch, Report
from tests.engines.local.lab import Lab, config, fresh_home, lab, running, swept, toy

SECRET = "a secret of an installation, long enough"
LIMITS = "resources: {requests: {cpu: 50m}, limits: {cpu: 500m, memory: 1Gi}},"


def door_of(engine: Lab) -> Door:
    return Door(engine.scheduler.household, lambda: (SECRET,))


async def asked(door: Door, method: str, path: str, body: object = None) -> tuple[int, Any, dict[str, str]]:
    content = b"" if body is None else json.dumps(body).encode()
    said = await door.answer(method, path, authorization=f"Bearer {SECRET}", body=content)
    text = said.body.decode()
    return said.status, json.loads(text) if "json" in said.media_type else text, dict(said.headers)


async def crowded(engine: Lab) -> dict[str, Any]:
    """Two jobs on one node of two; the worker of the first."""
    for name in ("a", "b"):
        await engine.submit(toy(name, steps=100_000, gpus=0, container=LIMITS))
        await engine.until_step(name, 1)
    assert (await engine.job("a"))["nodes"] == (await engine.job("b"))["nodes"]
    return dict((await engine.job("a"))["workerDetails"][0])


def test_dragon_39_a_worker_is_moved_once_however_often_it_is_asked_for():
    async def story() -> None:
        async with lab(nodes=2, gpus=0) as engine:
            door, worker = door_of(engine), await crowded(engine)
            wish = {"node": worker["node"], "pod": worker["name"]}
            first = await asked(door, "POST", "/migrate", wish)
            assert (first[0], first[1], first[2][OUTCOME]) == (200, "Ok", "asked")
            again = await asked(door, "POST", "/migrate", {**wish, "pod": "a-worker-0"})
            assert (again[0], again[2].get(OUTCOME)) == (200, "duplicate")
            await engine.until_event("Migrated", "default/a")
            (move,) = await engine.scheduler.migrations()
            assert (move["from"], move["requested"], move["stepsLost"]) == (worker["node"], True, 0)
            assert (await engine.job("a"))["nodes"] != [worker["node"]]
            status, problem, _ = await asked(door, "POST", "/migrate", {**wish, "pod": "a-worker-0"})
            assert (status, "is not on" in problem["detail"]) == (409, True)

    asyncio.run(story())


def test_dragon_39_a_request_that_survived_the_engine_is_not_made_twice():
    """The engine is gone right after it took the wish: the next one finds it."""

    async def story() -> None:
        home = fresh_home()
        try:
            async with running(config(home, nodes=2, gpus=0, rate_limit_s=3.0), stop_jobs=False) as engine:
                worker = await crowded(engine)
                wish = {"node": worker["node"], "pod": worker["name"]}
                assert (await asked(door_of(engine), "POST", "/migrate", wish))[2][OUTCOME] == "asked"
            async with running(config(home, nodes=2, gpus=0)) as engine:
                await engine.until_event("Migrated", "default/a")
                assert len(await engine.scheduler.migrations()) == 1
        finally:
            await swept(home)

    asyncio.run(story())


def test_dragon_39_what_cannot_be_is_refused_with_a_reason_and_harms_nobody():
    async def story() -> None:
        async with lab(nodes=2, gpus=0) as engine:
            door, worker = door_of(engine), await crowded(engine)
            node = worker["node"]
            for body, status in [
                ({"node": node, "pod": "x"}, 400),
                ({"node": node}, 400),
                ({"node": node, "pod": "nobody-worker-0"}, 404),
                ({"node": "node-9", "pod": worker["name"]}, 404),
                ({"node": "node-2" if node == "node-1" else "node-1", "pod": worker["name"]}, 409),
            ]:
                assert (await asked(door, "POST", "/migrate", body))[0] == status, body
            assert await engine.scheduler.migrations() == []
            assert (await door.answer("POST", "/migrate", authorization=None, body=b"{}")).status == 401
            assert (await asked(door, "GET", "/migrate"))[0] == 405

    asyncio.run(story())


def test_cluster_info_counts_what_workers_may_use_at_most():
    async def story() -> None:
        async with lab(nodes=2, gpus=0) as engine:
            worker = await crowded(engine)
            status, nodes, _ = await asked(door_of(engine), "GET", "/cluster-info")
            assert status == 200
            assert set(nodes) == {"node-1", "node-2"}
            busy = nodes[worker["node"]]
            assert (busy["CpuMaxRequest"], busy["MemMaxRequest"]) == (1000, 2 * (1 << 30) * 1000)
            assert busy["CpuTotal"] - busy["CpuFree"] == 100

    asyncio.run(story())


def test_the_door_stands_beside_the_api_behind_the_same_token():
    async def story() -> None:
        async with lab(nodes=2, gpus=0) as engine:
            await engine.submit(toy("a", steps=100_000, gpus=0))
            await engine.until_step("a", 1)
            token = own_token(engine.home)
            with listening(0) as listener:
                async with serving(
                    engine.scheduler,
                    home=engine.home,
                    listener=listener,
                    stop=lambda _: None,
                    household=engine.scheduler.household,
                ) as endpoint:
                    told = Batch((Report("default/a", 1, 1000.0, value=2.0, metric="eval_loss"),)).to_json()
                    answers = [
                        await over_http(endpoint.port, "GET", "/cluster-info", token),
                        await over_http(endpoint.port, "POST", "/reports", token, told),
                        await over_http(endpoint.port, "POST", "/reports", token, b"{not json"),
                        await over_http(endpoint.port, "POST", "/reports", "a token of somebody else, long", told),
                        await over_http(endpoint.port, "GET", "/v1/health", token),
                    ]
            assert [status for status, _ in answers] == [200, 200, 400, 401, 200]
            assert json.loads(answers[1][1])["passed_over"] == 0
            assert (await engine.job("a"))["growth"]["metric"] == "eval_loss"

    asyncio.run(story())


async def over_http(port: int, method: str, path: str, token: str, body: bytes = b"") -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


def test_rebalancers_are_chosen_kept_and_refused_like_a_policy():
    async def story() -> None:
        home = fresh_home()
        try:
            async with running(config(home)) as engine:
                scheduler = engine.scheduler
                assert (await scheduler.policy())["rebalance"] == []
                chosen = await scheduler.set_policy(
                    "elastic-fifo",
                    {"rebalance": "specon", "rebalanceSettings": "specon.round-s=5\njudge.threshold=0.2"},
                )
                assert chosen["rebalance"] == ["specon"]
                for settings, word in [
                    ({"rebalance": "spekon"}, "specon"),
                    ({"rebalance": "specon", "rebalanceSettings": "specon.round-s=soon"}, "round"),
                    ({"rebalance": "specon", "rebalanceSettings": "judge.threshold=-1"}, "threshold"),
                    ({"rebalance": "none", "rebalanceSettings": "specon.round-s=5"}, "round-s"),
                ]:
                    told = await refusal(scheduler.set_policy("fifo", settings))
                    assert word in told, told
                assert await scheduler.policy() == chosen, "what was refused changed nothing, the policy included"
            async with running(config(home)) as engine:
                again = await engine.scheduler.policy()
                assert again == chosen
                assert engine.scheduler._life.rules.about()["rebalance"] == ["specon"]
                assert (await engine.scheduler.set_policy("fifo", {}))["rebalance"] == ["specon"], "it stays"
                assert (await engine.scheduler.set_policy("fifo", {"rebalance": "none"}))["rebalance"] == []
        finally:
            await swept(home)

    asyncio.run(story())


async def refusal(asking: Awaitable[object]) -> str:
    try:
        await asking
    except InvalidRequest as error:
        return str(error)
    raise AssertionError("it was not refused")
