"""A disk that is full or read-only is told, survived, and forgotten when it is over: real file systems, real processes.

Within a save interval the job has the condition SaveFailing and an event, health is not ok and names the path and what
is missing. Training goes on, the newest good checkpoint stays, a resize comes to its end. With room everything heals by
itself.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sterna.engines.local.process.disk_watch import RESERVE_BYTES, GuardedDirectory
from sterna.training.checkpoint import CheckpointStore
from tests.engines.local.lab import Lab, config, manifest, running, swept
from tests.needs import absent
from tests.waiting import until_async

PROGRAM = Path(__file__).with_name("saving_program.py")
PLACE = tempfile.gettempdir()  # where file systems are mounted, also by a test that fills what tempfile uses
HOME_BYTES = 32 << 20
STATE_BYTES = 1 << 20


@contextmanager
def small_file_system(path: Path, size: int) -> Iterator[Path]:
    """A file system of its own, or the test is skipped (a failure where all is required)."""
    path.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        absent(f"no file system can be mounted: {made.stderr.strip() or made.returncode}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)


def fill(path: Path) -> Path:
    """Take every block that is left."""
    filler = path / "filler"
    with filler.open("ab", buffering=0) as file:
        for piece in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(piece))
    return filler


def remount(path: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(path)], check=True, capture_output=True)


def training(name: str, *, steps: int = 100_000, state: int = STATE_BYTES, **more: Any) -> str:
    command = [sys.executable, str(PROGRAM), str(steps), str(state)]
    return manifest(name, command, grace_s=8, template="restartPolicy: OnFailure", **more)


@asynccontextmanager
async def home_of_its_own(size: int = HOME_BYTES) -> AsyncIterator[tuple[Lab, Path]]:
    top = Path(tempfile.mkdtemp(prefix="sterna-disk-", dir=PLACE))
    with small_file_system(top / "fs", size) as mounted:
        home = mounted / "home"
        try:
            async with running(config(home, nodes=2, gpus=1, inherited=dict(os.environ))) as engine:
                yield engine, mounted
        finally:
            with contextlib.suppress(OSError):
                remount(mounted, "rw")
            (mounted / "filler").unlink(missing_ok=True)
            await swept(home)
    top.joinpath("fs").rmdir()
    top.rmdir()


async def until_saved(engine: Lab, name: str, *, after: int = -1) -> int:
    async def holds() -> bool:
        checkpoint = (await engine.job(name))["checkpoint"]
        return checkpoint is not None and checkpoint["step"] > after

    await engine.until(holds, f"job {name} has a checkpoint after step {after}")
    step: int = (await engine.job(name))["checkpoint"]["step"]
    return step


def condition_of(job: dict[str, Any]) -> dict[str, Any]:
    found = [one for one in job["conditions"] if one["type"] == "SaveFailing"]
    return found[0] if found else {"status": "absent", "message": "", "reason": ""}


async def until_condition(engine: Lab, name: str, status: str) -> dict[str, Any]:
    async def holds() -> bool:
        return bool(condition_of(await engine.job(name))["status"] == status)

    await engine.until(holds, f"SaveFailing of {name} is {status}")
    return condition_of(await engine.job(name))


async def until_well(engine: Lab) -> None:
    async def holds() -> bool:
        return bool((await engine.scheduler.health())["ok"])

    await engine.until(holds, "the engine is well")


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_a_full_home_is_told_and_healed():
    async def scenario() -> None:
        async with home_of_its_own() as (engine, mounted):
            await engine.submit(training("a"))
            await until_saved(engine, "a")
            assert (await engine.scheduler.health())["ok"]
            filler = fill(mounted)
            told = await until_condition(engine, "a", "True")
            assert str(engine.home) in told["message"]
            assert "No space left on device" in told["message"]
            assert "bytes are free" in told["message"] or "are free)" in told["message"]
            health = await engine.scheduler.health()
            assert not health["ok"]
            assert "No space left on device" in health["problem"]
            event = await engine.until_event("SaveFailing", "a")
            assert event["type"] == "Warning"
            step = int((await engine.job("a"))["step"])
            filler.unlink()
            await until_condition(engine, "a", "False")
            await until_well(engine)
            await engine.until_event("SaveRecovered", "a")
            await until_saved(engine, "a", after=step)

    run(scenario)


def test_trouble_is_told_from_memory_where_not_even_a_reserve_is_left():
    """No commit succeeds, so no event is in the store; what was told is written when there is room again."""

    async def scenario() -> None:
        async with home_of_its_own() as (engine, mounted):
            await engine.submit(training("a"))
            await until_saved(engine, "a")
            reserve = engine.home / ".reserve"
            reserve.unlink()
            reserve.mkdir()  # it can be neither kept nor given up
            filler = fill(mounted)
            await until_condition(engine, "a", "True")
            assert not (await engine.scheduler.health())["ok"]
            await engine.until_event("SaveFailing", "a")
            filler.unlink()
            reserve.rmdir()
            await until_condition(engine, "a", "False")
            await until_well(engine)
            await engine.until_event("SaveFailing", "a")

    run(scenario)


def test_the_reserve_is_there_as_soon_as_jobs_are_looked_after():
    """Not a second later: what fills the disk may be the first job."""

    async def scenario() -> None:
        async with home_of_its_own() as (engine, _):
            assert (engine.home / ".reserve").stat().st_size == RESERVE_BYTES

    run(scenario)


def test_a_resize_on_a_full_home_comes_to_its_end_and_loses_no_checkpoint():
    async def scenario() -> None:
        async with home_of_its_own() as (engine, mounted):
            await engine.submit(training("a", state=6 << 20, workers=(1, 2)))
            await engine.until_workers("a", 2)
            saved = await until_saved(engine, "a")
            fill(mounted)
            await until_condition(engine, "a", "True")
            await engine.scheduler.scale("a", minimum=1, maximum=1, workers=None)
            job = await engine.until_workers("a", 1)

            async def resumed() -> bool:
                step = (await engine.job("a"))["step"]
                return step is not None and int(step) > saved

            await engine.until(resumed, "training goes on from the newest good checkpoint")
            store = CheckpointStore(engine.home / "jobs" / job["uid"] / "checkpoints", incarnation=0)
            assert any(generation.step >= saved for generation in store.generations())

    run(scenario)


async def made_read_only(path: Path) -> None:
    """As soon as nobody has a file open for writing there: until then the kernel refuses."""
    command = ["mount", "-o", "remount,ro", str(path)]
    await until_async(lambda: subprocess.run(command, check=False, capture_output=True).returncode == 0)


def test_a_read_only_directory_of_checkpoints_is_told_and_a_move_ends():
    async def scenario() -> None:
        async with home_of_its_own(128 << 20) as (engine, _):
            await engine.submit(training("a", spec="runPolicy: {suspend: true}"))
            checkpoints = engine.home / "jobs" / (await engine.job("a"))["uid"] / "checkpoints"
            with small_file_system(checkpoints, 16 << 20):
                await engine.scheduler.resume("a")
                job = await engine.until_workers("a", 1)
                saved = await until_saved(engine, "a")
                await asyncio.wait_for(made_read_only(checkpoints), 40)
                told = await until_condition(engine, "a", "True")
                assert str(checkpoints) in told["message"]
                assert "Read-only file system" in told["message"]
                assert not (await engine.scheduler.health())["ok"]
                await engine.until_event("SaveFailing", "a")
                (old,) = [one for one in job["workerDetails"] if one["phase"] != "exited"]
                target = "node-2" if old["node"] == "node-1" else "node-1"
                await engine.scheduler.migrate("a", worker=None, to=target)
                await engine.until(lambda: _trains_on(engine, target), f"the job trains on {target}")
                remount(checkpoints, "rw")
                await until_saved(engine, "a", after=saved)
                await until_condition(engine, "a", "False")
                await until_well(engine)
                await engine.scheduler.delete("a")
                await engine.until(lambda: _gone(engine), "the job is gone")

    run(scenario)


def test_a_read_only_directory_is_told_with_its_path(tmp_path):
    """The home itself: a database that is open keeps the kernel from making it read-only under a running engine."""
    with small_file_system(tmp_path / "fs", 4 << 20) as mounted:
        guarded = GuardedDirectory(mounted, reserve_bytes=1 << 20)
        guarded.look()
        remount(mounted, "ro")
        guarded.look()
        assert guarded.trouble is not None
        assert guarded.trouble.reason == "ReadOnly"
        assert f"{mounted} cannot be written: Read-only file system" in guarded.trouble.message
        remount(mounted, "rw")
        guarded.look()
        assert guarded.trouble is None


def test_a_full_directory_of_checkpoints_is_told_by_the_worker_and_a_resize_ends():
    async def scenario() -> None:
        async with home_of_its_own(128 << 20) as (engine, _):
            await engine.submit(training("a", workers=(1, 2), spec="runPolicy: {suspend: true}"))
            uid = (await engine.job("a"))["uid"]
            checkpoints = engine.home / "jobs" / uid / "checkpoints"
            with small_file_system(checkpoints, 8 << 20):
                await engine.scheduler.resume("a")
                await engine.until_workers("a", 2)
                saved = await until_saved(engine, "a")
                filler = fill(checkpoints)
                told = await until_condition(engine, "a", "True")
                assert str(checkpoints) in told["message"]
                assert "No space left on device" in told["message"]
                health = await engine.scheduler.health()
                assert not health["ok"]
                assert "default/a" in health["problem"]
                await engine.scheduler.scale("a", minimum=1, maximum=1, workers=None)
                await engine.until_workers("a", 1)
                filler.unlink()
                await until_saved(engine, "a", after=saved)
                await until_condition(engine, "a", "False")
                await until_well(engine)
                await engine.scheduler.delete("a")
                await engine.until(lambda: _gone(engine), "the job is gone")

    run(scenario)


def test_a_save_that_does_not_fit_is_told_by_the_worker_although_the_home_is_well():
    """There is room for the reserve twice, so nothing but the failed save shows the trouble."""

    async def scenario() -> None:
        async with home_of_its_own(64 << 20) as (engine, mounted):
            filler = fill(mounted)
            os.truncate(filler, filler.stat().st_size - 3 * RESERVE_BYTES)
            await engine.submit(training("a", state=5 * RESERVE_BYTES))
            told = await until_condition(engine, "a", "True")
            assert told["reason"] == "NotSaved"
            assert str(engine.home) in told["message"]
            assert "No space left on device" in told["message"]
            assert "default/a" in (await engine.scheduler.health())["problem"]
            assert [event["reason"] for event in await engine.scheduler.events()].count("StateNotWritten") == 0
            filler.unlink()
            await until_saved(engine, "a")
            await until_condition(engine, "a", "False")
            await until_well(engine)

    run(scenario)


def test_a_full_directory_of_checkpoints_is_told_before_anything_is_saved_there():
    async def scenario() -> None:
        async with home_of_its_own() as (engine, _):
            await engine.submit(manifest("a", ["sleep", "600"], spec="runPolicy: {suspend: true}"))
            checkpoints = engine.home / "jobs" / (await engine.job("a"))["uid"] / "checkpoints"
            with small_file_system(checkpoints, 1 << 20):
                await engine.scheduler.resume("a")
                await engine.until_workers("a", 1)
                filler = fill(checkpoints)
                told = await until_condition(engine, "a", "True")
                assert told["reason"] == "NoSpace"
                assert f"{checkpoints} cannot be written: No space left on device" in told["message"]
                filler.unlink()
                await until_condition(engine, "a", "False")
                await engine.scheduler.delete("a")
                await engine.until(lambda: _gone(engine), "the job is gone")

    run(scenario)


def test_a_launch_that_a_read_only_directory_holds_up_is_told_and_made_later():
    """The directory of its workers is on a file system of its own, so the home is well."""

    async def scenario() -> None:
        async with home_of_its_own() as (engine, _):
            await engine.submit(manifest("a", ["sleep", "600"], spec="runPolicy: {suspend: true}"))
            workers = engine.home / "jobs" / (await engine.job("a"))["uid"] / "workers"
            with small_file_system(workers, 1 << 20):
                remount(workers, "ro")
                await engine.scheduler.resume("a")
                told = await until_condition(engine, "a", "True")
                assert told["reason"] == "ReadOnly"
                assert str(workers) in told["message"]
                assert "Read-only file system" in told["message"]
                assert "default/a" in (await engine.scheduler.health())["problem"]
                remount(workers, "rw")
                await engine.until_workers("a", 1)
                await until_condition(engine, "a", "False")
                await until_well(engine)
                await engine.scheduler.delete("a")
                await engine.until(lambda: _gone(engine), "the job is gone")

    run(scenario)


async def _trains_on(engine: Lab, node: str) -> bool:
    job = await engine.job("a")
    alive = [one for one in job["workerDetails"] if one["phase"] != "exited"]
    return job["phase"] == "Running" and [one["node"] for one in alive] == [node]


async def _gone(engine: Lab) -> bool:
    return not await engine.scheduler.jobs()


def test_a_full_tmp_harms_nobody(monkeypatch):
    """Neither engine nor worker keeps anything there: a job saves and ends well while it is full.

    `tempfile` would look for another directory, so it is told to take this one, here and in the program. The warden is
    started without an environment, so this shows nothing about it.
    """

    async def scenario() -> None:
        with small_file_system(Path(top) / "tmp", 1 << 20) as full:
            fill(full)
            monkeypatch.setenv("TMPDIR", str(full))
            monkeypatch.setattr(tempfile, "tempdir", str(full))
            async with home_of_its_own() as (engine, _):
                await engine.submit(training("a", steps=60))
                await engine.until_phase("a", "Succeeded")
                job = await engine.job("a")
                assert job["checkpoint"] is not None
                assert condition_of(job)["status"] != "True"
                reasons = [event["reason"] for event in await engine.scheduler.events()]
                assert "TrainingProblem" not in reasons
                assert "EngineProblem" not in reasons
            assert os.listdir(full) == ["filler"]

    with tempfile.TemporaryDirectory() as top:
        run(scenario)


@pytest.mark.parametrize("size", [256 << 10, 1 << 20])
def test_the_reserve_is_of_real_blocks_and_is_given_up_when_it_is_needed(tmp_path, size):
    with small_file_system(tmp_path / "fs", 4 << 20) as mounted:
        guarded = GuardedDirectory(mounted, reserve_bytes=size)
        guarded.look()
        assert guarded.trouble is None
        assert (mounted / ".reserve").stat().st_blocks * 512 >= size
        filler = fill(mounted)
        guarded.look()
        assert guarded.trouble is not None
        assert guarded.trouble.reason == "NoSpace"
        assert str(mounted) in guarded.trouble.message
        assert (mounted / ".reserve").stat().st_size == size - size // 8, "not all at once: a save would take it"
        for number in range(4):  # however often the room is taken
            (mounted / f"report-{number}").write_bytes(bytes(size // 8))
            guarded.look()
            assert guarded.trouble.reason == "NoSpace"
        filler.unlink()
        guarded.look()
        assert guarded.trouble is None
        assert (mounted / ".reserve").exists()
