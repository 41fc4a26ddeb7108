"""Thousands of jobs that are over before anybody looks: each ends as its program did, and nothing of them is left.

    STERNA_SHORT_JOBS=20000 pytest tests/attack/test_short_jobs.py

STERNA_SHORT_JOBS_SEED chooses other jobs; a failure prints which they were.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.model.errors import NotFound
from tests.engines.local.lab import Lab, config, fresh_home, manifest, processes_of, running, swept
from tests.waiting import others_run

COUNT = int(os.environ.get("STERNA_SHORT_JOBS") or 800)
SEED = int(os.environ.get("STERNA_SHORT_JOBS_SEED") or 10)
CLIENTS = 8
ROUND = 2000  # jobs that are there at the same time
UNDER_WAY = ("Waiting", "Running", "Resizing", "Suspended")
SILENCE_S = 60.0  # nothing at all happens for so long, and not everything is over: it never will be


class Errand(NamedTuple):
    """One job, and what must become of it."""

    name: str
    command: list[str]
    phase: str  # as it must end. Empty: it is deleted
    reason: str = ""
    pause_s: float = 0.0  # before it is deleted


def errand(name: str, chance: random.Random) -> Errand:
    lasts = f"{chance.choice((0.0, chance.uniform(0, 0.05))):.3f}"
    program = f"echo . >> ran/{name}" + (f"; sleep {lasts}" if float(lasts) else "")
    match chance.choices(("well", "badly", "by signal", "not at all", "deleted"), (50, 20, 5, 5, 20))[0]:
        case "well":
            return Errand(name, ["sh", "-c", program], "Succeeded", "Completed")
        case "badly":
            return Errand(name, ["sh", "-c", f"{program}; exit {chance.randint(1, 255)}"], "Failed", "WorkerFailed")
        case "by signal":
            return Errand(name, ["sh", "-c", f"{program}; kill -9 $$"], "Failed", "WorkerFailed")
        case "not at all":
            return Errand(name, [f"no-such-program-{name}"], "Failed", "CommandNotFound")
        case _:
            code = chance.randint(0, 1)
            pause_s = chance.choice((0.0, chance.uniform(0, 0.2), chance.uniform(0, 5)))
            return Errand(name, ["sh", "-c", f"{program}; exit {code}"], "", pause_s=pause_s)


async def deleted_after(engine: Lab, job: Errand) -> None:
    await asyncio.wait({engine.running}, timeout=job.pause_s)
    await engine.scheduler.delete(job.name)


async def client(engine: Lab, errands: list[Errand]) -> None:
    """Submits its jobs one after another, and deletes some of them while it does."""
    async with asyncio.TaskGroup() as deletions:
        for job in errands:
            text = manifest(job.name, job.command, grace_s=1, template="restartPolicy: Never")
            await engine.submit(text)
            await others_run()
            if not job.phase:
                deletions.create_task(deleted_after(engine, job))


async def all_over(engine: Lab) -> None:
    """Until no job is under way. Waits as long as anything happens at all."""
    seen, at_s = -1, time.monotonic()
    while True:
        jobs = (await engine.scheduler.health())["jobs"]
        if not any(jobs[phase] for phase in UNDER_WAY):
            return
        now = await engine.scheduler.changed(after=seen + 100, timeout_s=1.0)  # counting all jobs at each event costs
        if engine.running.done():
            await engine.running
        seen, at_s = (now, time.monotonic()) if now > seen else (seen, at_s)
        assert time.monotonic() < at_s + SILENCE_S, f"nothing happens any more: {jobs}"


def tries(home: Path, job: Errand) -> int:
    path = home / "ran" / job.name
    return len(path.read_text().splitlines()) if path.exists() else 0


async def require_verdicts(engine: Lab, errands: list[Errand]) -> None:
    wrong = []
    for job in errands:
        try:
            record = await engine.job(job.name)
        except NotFound:
            found = ("", "", 0)
        else:
            found = (record["phase"], record["reason"], record["restarts"])
        if found != (job.phase, job.reason, 0):
            wrong.append(f"{job}: {found}")
        ran = tries(engine.home, job)
        if ran > 1 or (ran == 0 and job.phase and job.reason != "CommandNotFound"):
            wrong.append(f"{job}: ran {ran} times")
            told = await engine.scheduler.events(job.name)
            wrong += [f"    {event['at']} {event['reason']}: {event['message']}" for event in told]
    assert not wrong, "\n".join(wrong[:40])


async def require_nothing_left(engine: Lab, errands: list[Errand]) -> None:
    """No processes; and when the jobs are deleted, no files."""
    warden = await connect_or_start(engine.home)
    try:
        assert processes_of(engine.home) == []
        async with asyncio.TaskGroup() as group:
            for job in errands:
                if job.phase:
                    group.create_task(engine.scheduler.delete(job.name))
        assert await engine.scheduler.jobs() == []
        assert list((engine.home / "jobs").iterdir()) == []
        assert (await warden.list_all()).processes == ()
    finally:
        warden.close()


def test_short_jobs_end_as_their_programs_did_and_leave_nothing_behind():
    """In rounds, so that the queue is as long in a soak as here, and the engine as old as the soak."""
    chance = random.Random(SEED)
    errands = [errand(f"j{number}", chance) for number in range(COUNT)]

    async def story() -> None:
        home = fresh_home()
        try:
            async with running(config(home, nodes=2, gpus=8)) as engine:
                (home / "ran").mkdir()
                for first in range(0, COUNT, ROUND):
                    await one_round(engine, errands[first : first + ROUND])
        except BaseException:
            print(f"STERNA_SHORT_JOBS={COUNT} STERNA_SHORT_JOBS_SEED={SEED}")  # noqa: T201
            raise
        finally:
            await swept(home)

    asyncio.run(story())


async def one_round(engine: Lab, errands: list[Errand]) -> None:
    began_s = time.monotonic()
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(client(engine, errands[number::CLIENTS]))
    await all_over(engine)
    print(f"{len(errands) / (time.monotonic() - began_s):.1f} jobs per second")  # noqa: T201
    await engine.until(lambda: at_rest(engine), "the warden has forgotten all ends, and holds no port")
    await require_verdicts(engine, errands)
    await require_nothing_left(engine, errands)


async def at_rest(engine: Lab) -> bool:
    """The warden remembers no process, and holds no port for any."""
    warden = await connect_or_start(engine.home)
    try:
        census = await warden.list_all()
    finally:
        warden.close()
    return not census.processes and not census.ports
