"""Facts about a process overtake each other on their way into the engine, and no end is lost to an older answer.

The engine is the real one. The warden is a fake behind its port, since each story is about one order of messages that a
real one brings about once in a while: what it holds is as the story says, and it pushes ends just before it hands over
answers that it made earlier, as the socket's reader does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sterna.compose.local_engine import open_local
from sterna.engines.local.launch.warden.values import Census, Exited, Launch, Limit, Limits, ProcessPhase, ProcessState
from sterna.engines.local.process import daemon
from sterna.model.errors import EngineUnavailable, NotFound
from sterna.model.plan import Held
from sterna.placement.packed import packed
from sterna.planner.decide import decide
from sterna.policies.registry import policy
from tests.engines.local.lab import Lab, config, manifest, running
from tests.waiting import others_run


class FakeWarden:
    """Holds processes that do nothing. Told to stop, they end at once."""

    def __init__(self) -> None:
        self.held: dict[str, ProcessState] = {}
        self.on_exit: Callable[[ProcessState], None] = lambda _: None
        self.on_lost: Callable[[], None] = lambda: None
        self.before_start: Callable[[str], None] = lambda uid: None  # between the answer and its being looked at
        self.before_census: Callable[[], None] = lambda: None
        self.denies_stops = False
        self.through_before_stops = False  # by itself, just before it is asked
        self.may_answer = asyncio.Event()  # starts; they happen all the same
        self.may_answer.set()
        self.failing_forgets = 0
        self.starts: list[str] = []

    async def connected(self, home: Path, **given: Any) -> "FakeWarden":
        self.on_exit, self.on_lost = given["on_exit"], given["on_lost"]
        return self

    def end(self, uid: str, code: int, *, stopped: bool = False) -> None:
        end = Exited(code, None, 0.0, 0.0, False, stopped, False, 0.0, 0, f"exit code {code}")
        self.held[uid] = self.held[uid]._replace(phase=ProcessPhase.EXITED, exited=end)
        self.on_exit(self.held[uid])

    async def start(self, launch: Launch) -> ProcessState:
        self.starts.append(launch.id)
        answer = self.held[launch.id] = ProcessState(launch.id, ProcessPhase.RUNNING, 7, 0.0, 0.0)
        await self.may_answer.wait()
        self.before_start(launch.id)
        return answer

    async def stop(self, process_id: str, *, grace_s: float) -> ProcessState:
        if self.denies_stops:
            self.held.pop(process_id, None)
        if process_id not in self.held:
            raise NotFound("process", process_id)
        if self.through_before_stops:
            self.end(process_id, 0)
            return self.held[process_id]
        answer = self.held[process_id] = self.held[process_id]._replace(phase=ProcessPhase.STOPPING)
        await others_run()
        self.end(process_id, 0, stopped=True)
        return answer

    async def list_all(self) -> Census:
        answer = Census("fake", 1, tuple(self.held.values()), {})
        await others_run()
        self.before_census()
        return answer

    async def forget(self, *process_ids: str) -> None:
        if self.failing_forgets:
            self.failing_forgets -= 1
            raise EngineUnavailable("it does not answer", retry_after_s=0.01)
        for process_id in process_ids:
            self.held.pop(process_id, None)

    async def ports(self, owner_id: str, count: int) -> tuple[int, ...]:
        return tuple(range(2000, 2000 + count))

    async def release_ports(self, *owner_ids: str) -> None: ...

    async def limits(self) -> Limits:
        none = Limit(False, "fake")
        return Limits(none, none, none, none)

    async def leave(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def warden(monkeypatch):
    fake = FakeWarden()
    monkeypatch.setattr(daemon, "connect_or_start", fake.connected)
    return fake


@asynccontextmanager
async def engine(home: Path) -> AsyncIterator[Lab]:
    async with running(config(home), stop_jobs=False) as lab:
        yield lab


def story(told: Callable[[], Any]) -> None:
    asyncio.run(told())


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_an_end_that_overtakes_the_answer_to_its_start_counts(warden, tmp_path, code, phase):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            warden.before_start = lambda uid: warden.end(uid, code)
            await lab.submit(manifest("a", ["program"], spec="runPolicy: {backoffLimit: 0}"))
            assert (await lab.until_phase("a", phase))["restarts"] == 0
            assert len(warden.starts) == 1

    story(told)


def test_an_end_that_overtakes_the_answer_to_its_stop_counts(warden, tmp_path):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            await lab.scheduler.suspend("a")

            async def gone() -> bool:
                return all(worker["phase"] == "exited" for worker in (await lab.job("a"))["workerDetails"])

            await lab.until(gone, "its worker is gone")

    story(told)


def test_a_program_that_was_through_before_it_was_asked_to_stop_has_succeeded(warden, tmp_path):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            warden.through_before_stops = True
            await lab.scheduler.suspend("a")
            await lab.until_phase("a", "Succeeded")
            assert len(warden.starts) == 1

    story(told)


def test_an_end_that_overtakes_the_census_of_a_starting_engine_counts(warden, tmp_path):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
        warden.before_census = lambda: warden.end(warden.starts[0], 0)
        async with engine(tmp_path / "home") as lab:
            await lab.until_phase("a", "Succeeded")
        assert len(warden.starts) == 1

    story(told)


def test_an_end_that_overtakes_the_census_after_a_broken_connection_counts(warden, tmp_path):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            warden.before_census = lambda: warden.end(warden.starts[0], 0)
            warden.on_lost()
            await lab.until_phase("a", "Succeeded")
        assert len(warden.starts) == 1

    story(told)


def test_a_census_says_nothing_about_what_was_started_after_it(warden, tmp_path):
    """It was made before the process began, and is looked at after that was told."""
    asked, started = asyncio.Event(), asyncio.Event()

    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            of_the_past: Census = await warden.list_all()

            async def late_census() -> Census:
                asked.set()
                await started.wait()
                return of_the_past

            warden.list_all = late_census
            warden.on_lost()
            await asked.wait()
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            started.set()
            await lab.submit(manifest("b", ["program"]))
            await lab.until_workers("b", 1)
            assert (await lab.until_workers("a", 1))["restarts"] == 0
            assert len(warden.starts) == 2

    story(told)


def test_a_process_that_the_warden_denies_when_it_is_to_stop_is_gone(warden, tmp_path):
    async def told() -> None:
        async with engine(tmp_path / "home") as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            warden.denies_stops = True
            await lab.scheduler.delete("a")

            async def gone() -> bool:
                return not await lab.scheduler.jobs()

            await lab.until(gone, "the job is gone")

    story(told)


def test_a_job_that_is_deleted_while_it_is_launched_keeps_its_room_until_it_is_gone(warden, tmp_path):
    """Else its place is given away, and whoever got it has to leave when the launch is answered."""

    async def told() -> None:
        async with running(config(tmp_path / "home", nodes=1, gpus=1), stop_jobs=False) as lab:
            warden.may_answer.clear()
            await lab.submit(manifest("a", ["program"]))

            async def launched() -> bool:
                return bool(warden.starts)

            await lab.until(launched, "a is being launched")
            await lab.scheduler.delete("a")
            await lab.submit(manifest("b", ["program"]))

            async def considered() -> bool:
                return len(await lab.scheduler.events("b")) > 1

            await lab.until(considered, "b is decided about")
            assert [event["reason"] for event in await lab.scheduler.events("b")] == ["Submitted", "Waiting"]
            warden.may_answer.set()
            await lab.until_workers("b", 1)
            assert [job["name"] for job in await lab.scheduler.jobs()] == ["b"]
            told = [event["reason"] for event in await lab.scheduler.events("b")]
            assert told == ["Submitted", "Waiting", "Starting"]
            assert len(warden.starts) == 2

    story(told)


def test_room_that_is_let_go_of_is_noticed_although_the_call_that_saw_it_failed_later(warden, tmp_path):
    async def told() -> None:
        async with running(config(tmp_path / "home", nodes=1, gpus=1), stop_jobs=False) as lab:
            await lab.submit(manifest("a", ["program"]))
            await lab.until_workers("a", 1)
            await lab.submit(manifest("b", ["program"]))
            await lab.until_event("Waiting", "b")
            warden.failing_forgets = 1
            warden.end(warden.starts[0], 0)
            await lab.until_workers("b", 1)

    story(told)


def test_a_decision_about_a_job_is_not_carried_out_on_another_one_of_its_name(tmp_path):
    """It was deleted and submitted anew between the look and the decision, and wants something else."""

    async def told() -> None:
        scheduler = open_local(config(tmp_path / "home", nodes=1, gpus=2))
        try:
            deciding = scheduler._life.engine
            await scheduler.submit(manifest("a", ["program"], workers=(2, 2)), cwd="/")
            (grow,) = decide(await deciding.observe(), policy("elastic-fifo"), packed).steps[0].actions
            await scheduler.delete("a")
            await scheduler.submit(manifest("a", ["program"], workers=(1, 1)), cwd="/")
            (outcome,) = await deciding.apply([grow])
            assert outcome.held is Held.STALE
            assert (await scheduler.job("a"))["phase"] == "Waiting"
        finally:
            await scheduler.close(stop_jobs=False)

    story(told)
