"""The engine dies at any moment and is started again: nothing is lost, nothing runs twice, nothing is left behind.

A crash here is an exception that nothing catches, raised before or after everything that leaves the engine's memory: a
commit, a call to the warden, a message to a worker. From then on the dead engine touches nothing. Killing a real
`sterna up` with SIGKILL is the end-to-end tests' part.
"""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.engines.local.process.assembly import LocalConfig
from sterna.model.errors import Conflict, SternaError
from tests.engines.local.lab import (
    Lab,
    config,
    fresh_home,
    manifest,
    processes_of,
    running,
    swept,
    toy,
    traced,
    trained_by_one_at_a_time,
)
from tests.needs import seeds

STEPS = 70
CRASHES_MAX = 12  # in one story; afterwards it may end in peace


class Crash(BaseException):
    """Not an Exception: nothing in the engine may catch it."""


class Fate:
    """Counts everything that leaves the engine's memory, and ends its life at one of these points."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.at_word = ""  # at the next of these. Empty: at none
        self.seen: list[str] = []
        self.dead = False

    def __call__(self, what: str) -> None:
        if self.dead:
            raise Crash
        self.seen.append(what)
        if (self.at is not None and len(self.seen) >= self.at) or what == self.at_word:
            self.dead = True
            raise Crash


def doomed(home: Path, fate: Fate) -> LocalConfig:
    return config(home, nodes=2, gpus=1, on_commit=fate, on_effect=fate)


async def act(engine: Lab) -> None:
    """The same requests in every life; each only if it has not been heard yet."""
    names = {job["name"] for job in await engine.scheduler.jobs()}
    if "a" not in names:
        with suppress(Conflict):
            await engine.submit(toy("a", "trace=trace", "slow=0.1", steps=STEPS))
    if "b" not in names:
        await engine.submit(manifest("b", ["sh", "-c", "echo x >> ran-b; exit 1"], spec="runPolicy: {backoffLimit: 1}"))
    job = await engine.until_step("a", 5)
    if job["phase"] == "Running" and not await engine.scheduler.migrations("a"):
        await engine.until_phase("b", "Failed")
        there = "node-2" if job["nodes"] == ["node-1"] else "node-1"
        with suppress(Conflict):
            await engine.scheduler.migrate("a", worker=None, to=there)
    await engine.until_phase("a", "Succeeded")
    await engine.until_phase("b", "Failed")


async def live(home: Path, fate: Fate) -> bool:
    """One life of the engine; says whether it was lived to its end."""
    try:
        async with running(doomed(home, fate), stop_jobs=False) as engine:
            doing = asyncio.create_task(act(engine))
            await asyncio.wait({doing, engine.running}, return_when=asyncio.FIRST_COMPLETED)
            if engine.running.done():
                doing.cancel()
            with suppress(asyncio.CancelledError, SternaError if fate.dead else Crash):
                await doing
            return not fate.dead
    except (Crash, BaseExceptionGroup):
        assert fate.dead
        return False


async def final(home: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """How both jobs ended; and that nothing is left of them."""
    async with running(config(home, nodes=2, gpus=1)) as engine:

        async def settled() -> bool:
            workers = [worker for name in "ab" for worker in (await engine.job(name))["workerDetails"]]
            return all(worker["phase"] == "exited" for worker in workers)

        await engine.until(settled, "everybody is gone")
        jobs = await engine.job("a"), await engine.job("b")
    client = await connect_or_start(home)
    census = await client.list_all()
    client.close()
    assert census.processes == ()
    assert processes_of(home) == []
    return jobs


def check(home: Path, jobs: tuple[dict[str, Any], dict[str, Any]]) -> None:
    a, b = jobs
    assert (a["phase"], a["stepsLost"], a["restarts"], a["progress"]) == ("Succeeded", 0, 0, 1.0)
    assert (b["phase"], b["reason"], b["restarts"]) == ("Failed", "BackoffLimitExceeded", 1)
    assert (home / "ran-b").read_text() == "x\nx\n"  # two tries, and none of them twice
    assert trained_by_one_at_a_time(home / "trace")
    assert [row[2] for row in traced(home / "trace")] == list(range(1, STEPS + 1))


def points_of_an_undisturbed_life() -> int:
    async def story() -> int:
        home = fresh_home()
        try:
            fate = Fate(None)
            assert await live(home, fate)
            check(home, await final(home))
            return len(fate.seen)
        finally:
            await swept(home)

    return asyncio.run(story())


@pytest.fixture(scope="module")
def points() -> int:
    return points_of_an_undisturbed_life()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8))
def test_r1_a_crash_between_any_two_effects_changes_nothing_in_the_end(seed, points):
    """Each seed is one crash somewhere, and then more of them in the lives after it."""
    chance = random.Random(seed)
    first = 1 + (seed * max(1, points // 8) + chance.randrange(max(1, points // 8))) % points

    async def story() -> None:
        home = fresh_home()
        crashes: list[str] = []
        try:
            at: int | None = first
            for _ in range(CRASHES_MAX):
                fate = Fate(at)
                if await live(home, fate):
                    break
                crashes.append(fate.seen[-1])
                at = chance.randrange(1, points) if len(crashes) < 3 else None
            check(home, await final(home))
        except BaseException:
            print(f"seed {seed}: crashed at {crashes}")  # noqa: T201
            raise
        finally:
            await swept(home)

    asyncio.run(story())


PREFERS_NODE_1 = """affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1,
        preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}}]}}"""


def test_a_move_that_was_half_decided_ends_where_it_was_to_go():
    """The engine dies after it let go of the old place and before it took the new one, which the job likes less."""

    async def story() -> None:
        home, fate = fresh_home(), Fate(None)
        try:
            with suppress(Crash, BaseExceptionGroup):
                async with running(config(home, nodes=2, gpus=2, on_commit=fate), stop_jobs=False) as engine:
                    await engine.submit(manifest("a", ["sleep", "600"], template=PREFERS_NODE_1))
                    assert (await engine.until_workers("a", 1))["nodes"] == ["node-1"]
                    fate.at_word = "after commit: apply"
                    await engine.scheduler.migrate("a", worker=None, to="node-2")
                    await asyncio.wait({engine.running})
            assert fate.dead
            async with running(config(home, nodes=2, gpus=2)) as engine:
                assert (await engine.until_workers("a", 1))["nodes"] == ["node-2"]
                (move,) = await engine.scheduler.migrations("a")
                assert (move["to"], move["warm"]) == ("node-2", False)
        finally:
            await swept(home)

    asyncio.run(story())
