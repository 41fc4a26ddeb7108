"""Launches that can never be made: the job fails with a reason that its owner understands, and the engine lives on.

A job that shows Running or Starting for ever holds its room for ever, and tells nobody why.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from sterna.model.errors import InvalidRequest
from tests.attack.test_short_jobs import at_rest
from tests.engines.local.lab import Lab, lab, manifest


def variables(*pairs: tuple[str, str]) -> str:
    return f"env: {json.dumps([{'name': name, 'value': value} for name, value in pairs])},"


def doubling(times: int) -> str:
    return variables(("V0", "x" * 64), *((f"V{i + 1}", f"$(V{i})$(V{i})") for i in range(times)))


async def attacked(text: str) -> tuple[dict[str, Any], Lab]:
    """How the job ended; and after it another one runs, so the engine is well."""
    async with lab(nodes=1, gpus=1) as engine:
        (engine.home / "not-a-program").write_text("neither script nor binary")
        (engine.home / "not-a-program").chmod(0o755)
        (engine.home / "not-executable").write_text("#!/bin/sh\n")
        script = engine.home / "no-interpreter"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        before = psutil.Process().memory_info().rss
        await engine.submit(text)
        job = await engine.until_phase("a", "Failed", "Succeeded")
        grown = psutil.Process().memory_info().rss - before
        assert grown < 100 * 2**20, f"{grown >> 20} MiB"
        await engine.submit(manifest("b", ["true"]))
        await engine.until_phase("b", "Succeeded")
        await engine.until(lambda: at_rest(engine), "the warden holds no port for either")
        await engine.scheduler.delete("a")
        await engine.scheduler.delete("b")
        assert await engine.scheduler.jobs() == []
        return job, engine


LONG_BYTES = 100_000
LONG = "x" * LONG_BYTES

CANNOT = [
    pytest.param(
        manifest("a", ["true"], container=doubling(23)), "CannotStart", "worker: env V11", id="an expansion bomb"
    ),
    pytest.param(
        manifest("a", ["true", "$(A)" * 5000], container=variables(("A", LONG))),
        "CannotStart",
        "worker: command[1]",
        id="a bomb in an argument",
    ),
    pytest.param(
        manifest("a", ["true", *["$(A)"] * 4000], container=variables(("A", LONG))),
        "CannotStart",
        "worker: command[",
        id="a bomb of many arguments",
    ),
    pytest.param(
        manifest("a", ["true", *["$(A)"] * 7], container=variables(("A", "\x01" * LONG_BYTES))),
        "CannotStart",
        "worker: launch",
        id="longer on its way to the warden than the warden reads",
    ),
    pytest.param(manifest("a", ["true", "x" * 2**17]), "CannotStart", "command[1]", id="an argument too long"),
    pytest.param(manifest("a", ["no-such-program"]), "CommandNotFound", "no-such-program", id="no such program"),
    pytest.param(manifest("a", ["/no/such/program"]), "CommandNotFound", "/no/such/program", id="no such path"),
    pytest.param(manifest("a", ["./not-executable"]), "CannotStart", "not executable", id="not executable"),
    pytest.param(manifest("a", [LONG]), "CannotStart", "xxx", id="a name longer than any path"),
    pytest.param(manifest("a", ["/"]), "CannotStart", "not executable", id="a directory"),
    pytest.param(manifest("a", ["./not-a-program"]), "CannotStart", "no program", id="not a program"),
    pytest.param(manifest("a", ["./no-interpreter"]), "CannotStart", "interpreter", id="no such interpreter"),
    pytest.param(manifest("a", [""]), "CannotStart", "command", id="an empty command"),
    pytest.param(
        manifest("a", ["true"], container="workingDir: /no/such/directory,"),
        "CannotStart",
        "/no/such/directory",
        id="no such directory",
    ),
    pytest.param(
        manifest("a", ["true"], container="workingDir: /etc/passwd,"), "CannotStart", "/etc/passwd", id="a file as such"
    ),
    pytest.param(
        manifest("a", ["true"], container="workingDir: somewhere,"), "CannotStart", "absolute path", id="a relative one"
    ),
    pytest.param(
        manifest("a", ["true"], container=f"workingDir: /{'x' * 5000},"), "CannotStart", "directory", id="a long one"
    ),
]


@pytest.mark.parametrize(("text", "reason", "named"), CANNOT)
def test_a_launch_that_cannot_be_made_fails_its_job_and_says_why(text, reason, named):
    job, _ = asyncio.run(attacked(text))
    assert (job["phase"], job["reason"]) == ("Failed", reason), job
    assert named in job["message"]
    assert len(job["message"]) < 2000
    assert job["restarts"] == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(manifest("a", ["true", "a\0b"]), id="a zero in an argument"),
        pytest.param(manifest("a", ["true"], container=variables(("A", "a\0b"))), id="a zero in a variable"),
        pytest.param(manifest("a", ["true"], container=variables(("A=B", "x"))), id="a name with ="),
        pytest.param(manifest("a", ["true", "half of a pair: \ud800"]), id="half of a surrogate pair"),
        pytest.param(manifest("a", ["true"], container=variables(("A", "\udfff"))), id="... in a variable"),
        pytest.param(manifest("a", ["true"], container='workingDir: "/tmp/\\ud800",'), id="... in a directory"),
    ],
)
def test_what_no_process_can_be_given_is_refused_when_it_is_submitted(text):
    async def story() -> None:
        async with lab() as engine:
            with pytest.raises(InvalidRequest):
                await engine.submit(text)
            assert await engine.scheduler.jobs() == []

    asyncio.run(story())


def test_a_grace_of_years_does_not_keep_a_job_from_being_deleted():
    """Longer than the warden lets anything take: it is told to end all the same."""

    async def story() -> None:
        async with lab() as engine:
            ready = Path(engine.home / "ready")
            text = manifest("a", ["sh", "-c", "touch ready; exec sleep 600"], grace_s=5, container=HOOK)
            await engine.submit(text.replace("GracePeriodSeconds: 5", f"GracePeriodSeconds: {9 * 365 * 86400}"))
            await engine.until(lambda: exists(ready), "it runs")
            await engine.scheduler.delete("a")

            async def gone() -> bool:
                return not await engine.scheduler.jobs()

            await engine.until(gone, "it is gone")

    asyncio.run(story())


HOOK = "lifecycle: {preStop: {exec: {command: ['true']}}},"


async def exists(path: Path) -> bool:
    return path.exists()
