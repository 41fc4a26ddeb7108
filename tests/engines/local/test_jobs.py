"""Jobs as real processes, from submission to their end: what people are promised, one test for each promise."""

import asyncio
import sys

import pytest

from sterna.model.errors import Conflict, EngineUnavailable, InvalidRequest, NotFound
from tests.engines.local.lab import lab, manifest, processes_of, toy, traced
from tests.needs import absent

SH = ["sh", "-c"]


def test_a_job_is_run_and_its_output_kept():
    async def story() -> None:
        async with lab() as engine:
            (accepted,) = await engine.submit(manifest("a", [*SH, "echo rank $STERNA_RANK of $STERNA_WORLD_SIZE"]))
            assert accepted["phase"] == "Waiting"
            job = await engine.until_phase("a", "Succeeded", "Failed")
            assert (job["phase"], job["reason"]) == ("Succeeded", "Completed")
            assert [c["type"] for c in job["conditions"] if c["status"] == "True"] == ["Created", "Succeeded"]
            (log,) = await engine.scheduler.logs("a", None)
            assert log.path.read_text() == "rank 0 of 1\n"
            assert job["workers"]["current"] == 0
            reasons = [event["reason"] for event in await engine.scheduler.events("a")]
            assert reasons == ["Submitted", "Starting", "Completed"]

    asyncio.run(story())


def test_two_jobs_share_what_one_had_alone_and_none_loses_a_step():
    async def story() -> None:
        async with lab(nodes=2, gpus=2) as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", steps=600, workers=(1, 3)))
            await engine.until_workers("a", 3)
            await engine.until_step("a", 5)
            await engine.submit(toy("b", steps=100_000, workers=(2, 2)))
            await engine.until_workers("b", 2)
            assert (await engine.job("a"))["workers"]["current"] == 2
            # If b went earlier, the two changes would count as none.
            await engine.until_event(
                "ScaledDown", "default/a"
            )  # if b went earlier, the two changes would count as none
            await engine.scheduler.delete("default/b")
            job = await engine.until_phase("a", "Succeeded")
            assert job["stepsLost"] == 0
            assert job["resizes"] >= 1
            assert {change["kind"] for change in job["history"]} <= {"resize", "migration"}
            steps = [row[2] for row in traced(trace) if row[1] == 0]
            assert steps == list(range(1, 601))  # each step once, in order, whoever made it

    asyncio.run(story())


def test_a_job_larger_than_the_machine_waits_and_is_told_why_and_disturbs_nobody():
    async def story() -> None:
        async with lab(nodes=1, gpus=2) as engine:
            await engine.submit(toy("big", workers=(3, 3)))
            await engine.submit(toy("small", steps=5))
            await engine.until_phase("small", "Succeeded")
            answer = await engine.scheduler.explain("big")
            assert answer["because"]["why"] == "NeverFits"
            assert "3" in str(answer["because"]["numbers"])
            assert answer["wouldChange"]
            assert (await engine.job("big"))["reason"] == "NeverFits"

    asyncio.run(story())


def test_a_command_that_does_not_exist_fails_at_once_and_says_so():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(manifest("a", ["no-such-command-anywhere"]))
            job = await engine.until_phase("a", "Failed")
            assert job["reason"] == "CommandNotFound"
            assert "no-such-command-anywhere" in job["message"]
            assert job["restarts"] == 0

    asyncio.run(story())


def test_a_failure_is_tried_again_from_the_last_checkpoint():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(toy("a", "fail_at=33", steps=60, spec="runPolicy: {backoffLimit: 3}"))
            job = await engine.until_phase("a", "Succeeded", "Failed")
            assert (job["phase"], job["restarts"]) == ("Succeeded", 1)
            (restart,) = [change for change in job["history"] if change["kind"] == "restart"]
            assert restart["stepsLost"] == 13  # 33 steps made, the checkpoint was at 20
            assert job["stepsLost"] == 13

    asyncio.run(story())


def test_a_job_that_always_fails_ends_at_its_backoff_limit():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(manifest("a", [*SH, "exit 3"], spec="runPolicy: {backoffLimit: 1}"))
            job = await engine.until_phase("a", "Failed")
            assert job["reason"] == "BackoffLimitExceeded"
            assert "3" in job["message"]
            assert job["restarts"] == 1
            assert len(job["workerDetails"]) == 2

    asyncio.run(story())


def test_a_worker_that_ignores_sigterm_is_killed_when_its_grace_is_over():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(toy("a", "deaf", "mute", steps=10_000, grace_s=1))
            await engine.until_workers("a", 1)
            await engine.scheduler.suspend("a")

            async def gone() -> bool:
                return not processes_of(engine.home)

            await engine.until(gone, "nothing runs")
            job = await engine.job("a")
            assert job["phase"] == "Suspended"
            assert job["workerDetails"][0]["exitCode"] is None

    asyncio.run(story())


def test_a_suspended_job_commits_and_goes_on_where_it_was():
    async def story() -> None:
        async with lab() as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", steps=60))
            await engine.until_step("a", 10)
            assert (await engine.scheduler.suspend("a"))["phase"] == "Suspended"

            async def gone() -> bool:
                return not any(worker["pid"] for worker in (await engine.job("a"))["workerDetails"])

            await engine.until(gone, "its workers are gone")
            assert (await engine.scheduler.resume("a"))["phase"] == "Waiting"
            job = await engine.until_phase("a", "Succeeded")
            assert [row[2] for row in traced(trace)] == list(range(1, 61))
            assert job["incarnation"] == 2

    asyncio.run(story())


def test_a_deleted_job_is_gone_with_its_processes_and_files():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(toy("a", steps=10_000))
            job = await engine.until_step("a", 2)
            await engine.scheduler.delete("a")

            async def gone() -> bool:
                return not await engine.scheduler.jobs() and not processes_of(engine.home)

            await engine.until(gone, "the job is gone")
            assert not (engine.home / "jobs" / job["uid"]).exists()
            with pytest.raises(NotFound, match="default/a"):
                await engine.job("a")
            await engine.submit(toy("a", steps=2))  # the name is free again
            await engine.until_phase("a", "Succeeded")

    asyncio.run(story())


def test_requests_that_cannot_be():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(toy("a", steps=10_000))
            with pytest.raises(Conflict, match="exists already"):
                await engine.submit(toy("a"))
            with pytest.raises(Conflict):
                await engine.submit(toy("b") + "---" + toy("a"))
            with pytest.raises(NotFound):
                await engine.job("b")  # all documents or none
            with pytest.raises(InvalidRequest, match="workers"):
                await engine.submit(toy("c", workers=(3, 2)))
            with pytest.raises(NotFound):
                await engine.scheduler.drain("nowhere")
            with pytest.raises(InvalidRequest, match="policy"):
                await engine.scheduler.set_policy("nonsense", {})
            with pytest.raises(InvalidRequest, match="max"):
                await engine.scheduler.scale("a", minimum=3, maximum=2, workers=None)
            assert await engine.submit(toy("d")) != []
            dry = await engine.scheduler.submit(toy("e"), cwd="/", dry_run=True)
            assert dry[0]["name"] == "e"
            with pytest.raises(NotFound):
                await engine.job("e")

    asyncio.run(story())


def test_scaling_a_running_job():
    async def story() -> None:
        async with lab(gpus=4) as engine:
            await engine.submit(toy("a", steps=10_000, workers=(1, 1)))
            await engine.until_workers("a", 1)
            await engine.scheduler.scale("a", minimum=None, maximum=None, workers=3)
            job = await engine.until_workers("a", 3)
            assert job["workers"] == {"current": 3, "min": 3, "max": 3, "step": 1}

    asyncio.run(story())


def test_a_job_that_is_active_for_too_long_fails_and_one_that_has_ended_expires():
    async def story() -> None:
        async with lab(gpus=2) as engine:
            await engine.submit(toy("a", steps=10_000, spec="runPolicy: {activeDeadlineSeconds: 1}"))
            await engine.submit(manifest("b", ["true"], spec="runPolicy: {ttlSecondsAfterFinished: 0}"))
            assert (await engine.until_phase("a", "Failed"))["reason"] == "DeadlineExceeded"

            async def expired() -> bool:
                return [job["name"] for job in await engine.scheduler.jobs()] == ["a"]

            await engine.until(expired, "job b is gone")

    asyncio.run(story())


def test_a_full_disk_refuses_new_jobs_and_harms_no_old_ones():
    async def story() -> None:
        async with lab(gpus=2) as engine:
            await engine.submit(toy("a", steps=60))
            await engine.until_step("a", 2)
            database = engine.scheduler._book.store._connection
            pages = database.execute("PRAGMA page_count").fetchone()[0]
            database.execute(f"PRAGMA max_page_count = {pages}")
            padded = "# " + "x" * 100_000 + toy("b")
            with pytest.raises(EngineUnavailable, match="cannot be written"):
                await engine.submit(padded)
            with pytest.raises(NotFound):
                await engine.job("b")
            database.execute("PRAGMA max_page_count = 1000000")
            await engine.submit(padded)
            for name in "ab":
                assert (await engine.until_phase(name, "Succeeded"))["restarts"] == 0

    asyncio.run(story())


def test_a_worker_that_wants_too_much_memory_is_said_to_be_out_of_memory():
    async def story() -> None:
        async with lab(cgroups="auto") as engine:
            if "memory enforced" not in (await engine.scheduler.health())["limits"]:
                absent("this machine lets nobody enforce limits of memory")
            hungry = [sys.executable, "-S", "-c", "x = bytearray(1 << 30)"]
            limits = "resources: {limits: {memory: 64Mi, nvidia.com/gpu: 1}},"
            never = "restartPolicy: Never"
            await engine.submit(manifest("a", hungry, gpus=0, container=limits, template=never))
            job = await engine.until_phase("a", "Failed")
            assert job["reason"] == "OutOfMemory"
            assert "64" in job["message"]

    asyncio.run(story())


def test_hooks_run_beside_the_worker():
    async def story() -> None:
        async with lab() as engine:
            hooks = (
                "lifecycle: {postStart: {exec: {command: [sh, -c, 'echo begun >> hooks']}}, "
                "preStop: {exec: {command: [sh, -c, 'echo ends >> hooks']}}},"
            )
            await engine.submit(manifest("a", ["sleep", "1000"], container=hooks))
            await engine.until_workers("a", 1)
            told = engine.home / "hooks"

            async def begun() -> bool:
                return told.exists()

            await engine.until(begun, "postStart ran")
            await engine.scheduler.suspend("a")

            async def gone() -> bool:
                return not processes_of(engine.home)

            await engine.until(gone, "nothing runs")
            assert told.read_text().split() == ["begun", "ends"]

    asyncio.run(story())


def test_the_environment_of_a_worker_has_the_interpreter_of_the_engine_first():
    async def story() -> None:
        async with lab() as engine:
            await engine.submit(manifest("a", ["python", "-c", "import sys; sys.exit('sterna' in sys.argv)"]))
            await engine.submit(manifest("b", [*SH, "command -v python"]))
            await engine.until_phase("b", "Succeeded")
            (log,) = await engine.scheduler.logs("b", None)
            assert log.path.read_text().strip().rpartition("/")[0] == sys.executable.rpartition("/")[0]

    asyncio.run(story())
