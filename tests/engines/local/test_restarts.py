"""The engine is stopped, started again, loses its warden: jobs go on as if nothing had been."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sterna.compose.local_engine import open_local
from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.model.errors import Conflict
from tests.engines.local.lab import config, fresh_home, lab, processes_of, running, swept, toy, traced
from tests.waiting import until_async


def run(story: Callable[[Path], Awaitable[None]]) -> None:
    """A story about a home of its own, of which nothing is left."""

    async def whole() -> None:
        home = fresh_home()
        try:
            await story(home)
        finally:
            await swept(home)

    asyncio.run(whole())


def test_jobs_run_on_without_the_engine_and_are_found_again():
    async def story(home: Path) -> None:
        async with running(config(home), stop_jobs=False) as engine:
            await engine.submit(toy("a", "trace=trace", steps=120))
            before = await engine.until_step("a", 10)
        (pid,) = processes_of(home)
        async with running(config(home)) as engine:
            job = await engine.until_step("a", 30)
            assert [worker["pid"] for worker in job["workerDetails"]] == [pid]
            assert job["uid"] == before["uid"]
            done = await engine.until_phase("a", "Succeeded")
            assert (done["incarnation"], done["restarts"]) == (1, 0)
            assert [row[2] for row in traced(home / "trace")] == list(range(1, 121))
            assert done["submittedAt"] == before["submittedAt"]

    run(story)


def test_what_ended_while_there_was_no_engine_is_known_afterwards():
    async def story(home: Path) -> None:
        async with running(config(home), stop_jobs=False) as engine:
            await engine.submit(toy("a", steps=40))
            await engine.until_step("a", 5)
        await until_async(lambda: not processes_of(home), "its processes are gone", every_s=0.05)
        async with running(config(home)) as engine:
            job = await engine.until_phase("a", "Succeeded")
            assert (job["step"], job["restarts"]) == (40, 0)

    run(story)


def test_an_engine_that_is_stopped_stops_its_jobs_at_a_checkpoint_and_they_go_on_with_it():
    async def story(home: Path) -> None:
        async with running(config(home), stop_jobs=True) as engine:
            await engine.submit(toy("a", "trace=trace", steps=120))
            await engine.until_step("a", 10)
        assert processes_of(home) == []
        async with running(config(home)) as engine:
            job = await engine.until_phase("a", "Succeeded")
            assert job["incarnation"] == 2
            assert [row[2] for row in traced(home / "trace")] == list(range(1, 121))

    run(story)


def test_a_warden_that_dies_takes_its_workers_along_and_they_come_back():
    async def story(home: Path) -> None:
        async with running(config(home)) as engine:
            await engine.submit(toy("a", steps=120))
            await engine.until_step("a", 30)
            client = await connect_or_start(home)
            warden = (await client.list_all()).pid
            client.close()
            os.kill(warden, signal.SIGKILL)
            done = await engine.until_phase("a", "Succeeded")
            assert (done["restarts"], done["incarnation"]) == (1, 2)
            (restart,) = done["history"]
            assert restart["reason"] == "RestartingAfterLoss"
            assert restart["stepsLost"] <= 20

    run(story)


def test_one_engine_for_each_home():
    async def story(home: Path) -> None:
        async with running(config(home)):
            with pytest.raises(Conflict, match="already runs"):
                open_local(config(home))
        open_local(config(home)).home.release()

    run(story)


def test_nodes_that_are_not_there_any_more_are_left():
    async def story(home: Path) -> None:
        async with running(config(home, nodes=2, gpus=1), stop_jobs=False) as engine:
            await engine.submit(toy("a", "trace=trace", steps=150) + "---" + toy("b", steps=30))
            await engine.until_step("a", 5)
            await engine.until_phase("b", "Succeeded")
        async with running(config(home, nodes=1, gpus=1)) as engine:
            job = await engine.until_phase("a", "Succeeded")
            assert job["stepsLost"] == 0
            assert [row[2] for row in traced(home / "trace")] == list(range(1, 151))

    run(story)


def test_policy_and_cordons_outlive_the_engine():
    async def story(home: Path) -> None:
        async with running(config(home, nodes=2)) as engine:
            await engine.scheduler.set_policy("srjf", {"rateLimitSeconds": "0.5"})
            await engine.scheduler.drain("node-2")
        async with running(config(home, nodes=2, rate_limit_s=None)) as engine:
            said = await engine.scheduler.policy()
            assert (said["policy"], said["rateLimitSeconds"]) == ("srjf", 0.5)
            nodes = {node["name"]: node["schedulable"] for node in await engine.scheduler.nodes()}
            assert nodes == {"node-1": True, "node-2": False}

    run(story)


def test_decisions_are_kept_in_a_form_that_replays():
    async def story(home: Path) -> None:
        from sterna.compose.decision_journals import replay_file

        async with running(config(home, nodes=2, gpus=1)) as engine:
            await engine.submit(toy("a", steps=60) + "---" + toy("b", steps=30) + "---" + toy("c", steps=10))
            for name in "abc":
                await engine.until_phase(name, "Succeeded")
        (journal,) = (home / "journal").iterdir()
        again = list(replay_file(str(journal)))
        assert again
        assert all(decision.same for decision in again)

    run(story)


def test_whoever_follows_is_told_of_news():
    async def story() -> None:
        async with lab() as engine:
            newest = await engine.scheduler.changed(after=0, timeout_s=0.0)
            waits = asyncio.create_task(engine.scheduler.changed(after=newest, timeout_s=30.0))
            await engine.submit(toy("a", steps=2))
            assert await waits > newest
            assert [event["reason"] for event in await engine.scheduler.events(after=newest, limit=1)] == ["Submitted"]
            assert await engine.scheduler.changed(after=10**9, timeout_s=0.01) < 10**9

    asyncio.run(story())
