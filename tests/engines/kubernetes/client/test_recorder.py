"""Events on objects: counted, named alike by every process, and dropped rather than in the way."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from sterna.engines.kubernetes.apiserver.client import Client
from sterna.engines.kubernetes.apiserver.objects import KubeObject
from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS, Unreachable
from sterna.engines.kubernetes.status.event_recorder import BURST, REFILL_S, WAITING_MAX, About, Recorder, Severity
from tests.engines.kubernetes.client.clocks import SteppedClock
from tests.engines.kubernetes.client.doors import config_map, opened, peer_client, replies, run, status


def about(number: int = 0, namespace: str = "n") -> About:
    return About("v1", "ConfigMap", namespace, f"job-{number}", f"uid-{number}")


@asynccontextmanager
async def recording(api: Client, **more: Any):
    recorder = Recorder(api, **more)
    task = asyncio.ensure_future(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_an_event_is_shown_with_the_object_and_repeats_are_counted(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api:
            made = await api.create(CONFIG_MAPS, config_map("job"), namespace=namespace, shape=KubeObject)
            job = About("v1", "ConfigMap", namespace, "job", made.metadata.uid)
            async with recording(api, instance="one") as recorder:
                recorder.record(job, reason="Waiting", message="needs 8 GPUs; node-1 has 5 free")
                await recorder.flush()
                recorder.record(job, reason="Waiting", message="needs 8 GPUs; node-1 has 6 free")
                recorder.record(job, reason="Waiting", message="needs 8 GPUs; node-1 has 7 free")
                recorder.record(job, reason="Failed", message="it broke", severity=Severity.WARNING)
                await recorder.flush()
            async with recording(api, instance="two") as recorder:  # another process
                recorder.record(job, reason="Waiting", message="needs 8 GPUs; node-1 has 4 free")
                await recorder.flush()
        events = {
            event["reason"]: event for event in control_plane.api().items(f"/api/v1/namespaces/{namespace}/events")
        }
        assert set(events) == {"Waiting", "Failed"}
        waiting, failed = events["Waiting"], events["Failed"]
        assert (waiting["count"], waiting["message"], waiting["type"]) == (
            4,
            "needs 8 GPUs; node-1 has 4 free",
            "Normal",
        )
        assert waiting["reportingComponent"] == waiting["source"]["component"] == "sterna"
        assert waiting["involvedObject"]["uid"] == made.metadata.uid
        assert waiting["firstTimestamp"] <= waiting["lastTimestamp"]
        assert (failed["count"], failed["type"]) == (1, "Warning")
        assert "it broke" in control_plane.kubectl("describe", "configmap", "job", "-n", namespace)

    run(scene())


def test_an_event_that_the_server_forgot_is_made_anew(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api, recording(api) as recorder:
            path = f"/api/v1/namespaces/{namespace}/events"
            recorder.record(about(namespace=namespace), reason="R", message="m")
            await recorder.flush()
            [event] = control_plane.api().items(path)
            control_plane.api().delete(f"{path}/{event['metadata']['name']}")
            recorder.record(about(namespace=namespace), reason="R", message="m")
            await recorder.flush()
            [event] = control_plane.api().items(path)
            assert event["count"] == 1
            assert recorder.dropped == 0

    run(scene())


def test_events_of_things_without_a_namespace_are_kept(control_plane):
    async def scene() -> None:
        async with opened(control_plane) as api, recording(api) as recorder:
            node = About("v1", "Node", "", "node-of-recorder-test", "uid-of-node")
            recorder.record(node, reason="Drained", message="empty")
            await recorder.flush()
            events = control_plane.api().items("/api/v1/namespaces/default/events")
            assert "Drained" in {event["reason"] for event in events if event["involvedObject"].get("uid") == node.uid}

    run(scene())


def test_alike_says_what_is_counted_as_one(control_plane, namespace):
    async def scene() -> None:
        async with opened(control_plane) as api, recording(api) as recorder:
            for node in ("red", "blue"):
                recorder.record(about(1, namespace), reason="R", message=f"moved to {node}")
                recorder.record(about(2, namespace), reason="R", message=f"moved to {node}", alike="moved")
            await recorder.flush()
        events = control_plane.api().items(f"/api/v1/namespaces/{namespace}/events")
        counts = sorted((event["involvedObject"]["name"], event["count"]) for event in events)
        assert counts == [("job-1", 1), ("job-1", 1), ("job-2", 2)]

    run(scene())


def test_who_floods_an_object_is_cut_off_and_others_are_not():
    async def scene() -> None:
        clock = SteppedClock()
        async with peer_client(replies(status(500, "InternalError"))) as (_, api):
            recorder = Recorder(api, clock=clock)
            taken = [recorder.record(about(), reason="R", message=f"word {chr(97 + n)}") for n in range(BURST + 5)]
            assert taken == [True] * BURST + [False] * 5
            assert recorder.record(about(1), reason="R", message="m")
            clock.advance(REFILL_S * 2.5)
            assert [recorder.record(about(), reason="R", message="m") for _ in range(3)] == [True, True, False]
            assert recorder.dropped == 6

    run(scene())


def test_a_flood_about_the_parts_of_an_object_does_not_keep_others_from_being_told():
    async def scene() -> None:
        async with peer_client(replies(status(500, "InternalError"))) as (_, api):
            recorder = Recorder(api, clock=SteppedClock())
            pods = [recorder.record(about(), reason="P", message="m", of_parts=True) for _ in range(BURST + 5)]
            assert pods == [True] * BURST + [False] * 5
            assert recorder.record(about(), reason="R", message="m")

    run(scene())


def test_an_object_that_may_be_told_of_as_often_as_any_other_is_forgotten():
    async def scene() -> None:
        clock = SteppedClock()
        async with peer_client(replies(status(500, "InternalError"))) as (_, api):
            recorder = Recorder(api, clock=clock)
            for number in range(100):
                assert all(recorder.record(about(number), reason="R", message="m") for _ in range(3))
                clock.advance(REFILL_S)
            assert len(recorder._buckets) < 10

    run(scene())


def test_the_line_is_bounded_and_the_oldest_go_first():
    async def scene() -> None:
        async with peer_client(replies(status(500, "InternalError"))) as (_, api):
            recorder = Recorder(api, clock=SteppedClock())
            for number in range(WAITING_MAX + 10):
                assert recorder.record(about(number), reason="R", message="m")
            assert recorder.dropped == 10
            assert len(recorder._line) == WAITING_MAX
            assert next(iter(recorder._line.values())).about == about(10)

    run(scene())


@pytest.mark.parametrize("trouble", [status(500, "InternalError"), status(403, "Forbidden"), "cut"])
def test_r3_events_are_dropped_while_the_server_is_in_trouble(trouble):
    async def scene() -> None:
        clock = SteppedClock()
        async with peer_client(replies(trouble)) as (server, api), recording(api, clock=clock) as recorder:
            recorder.record(about(), reason="R", message="m")
            await recorder.flush()
            assert recorder.dropped == 1
            assert len(server.received) == 1
            made = {"metadata": {"name": "e"}, "count": 1}
            server.reply = replies(web.json_response(made))
            clock.advance(60.0)
            recorder.record(about(), reason="R", message="m")
            await recorder.flush()
            assert recorder.dropped == 1
            assert len(server.received) == 2

    run(scene())


def test_recording_never_raises_even_without_a_server():
    async def scene() -> None:
        async with peer_client(replies("cut")) as (_, api):
            recorder = Recorder(api)
            assert recorder.record(about(), reason="R", message="x" * 100_000)
            with pytest.raises(Unreachable):
                await api.get(CONFIG_MAPS, "a", namespace="n", shape=KubeObject)

    run(scene())
