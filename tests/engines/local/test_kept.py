"""What the engine still holds of jobs that came and went: nothing, outside of tables that are bounded by number."""

import asyncio
from pathlib import Path

from sterna.engines.local.process.assembly import open_book
from sterna.model.learning import MODELS_MAX, Knowledge, ThroughputModel
from sterna.protocol.reports import Batch, Refusal, Report
from tests.engines.local.lab import Lab, config, lab, manifest
from tests.reachable import mentions

GONE = "gone"  # in every name of what is gone
AT_ONCE = "runPolicy: {ttlSecondsAfterFinished: 0, backoffLimit: 0}"
BOUNDED = {Knowledge: "models"}


def reported(engine: Lab, name: str) -> None:
    """Something that is taken, and something that is not."""
    pod = f"default/{name}-worker-0"
    said = Report(pod, 1, 1000.0, units_done=10.0, step=10, step_s=0.5, value=0.5)
    engine.scheduler._life.reporting.take(Batch((said,), refused=(Refusal(0, pod, "no number"),)))


def refused(engine: Lab, name: str) -> None:
    """Nothing but what is not taken."""
    pod = f"default/{name}-worker-0"
    engine.scheduler._life.reporting.take(Batch((), refused=(Refusal(0, pod, "no number"),)))


async def left_after(rounds: int) -> list[str]:
    gone = [GONE]  # and uids
    async with lab(gpus=2) as engine:

        async def all_gone() -> bool:
            return not any(GONE in job["id"] for job in await engine.scheduler.jobs())

        for number in range(rounds):
            well, badly, runs, waits = (f"{GONE}-{number}-{each}" for each in "abcd")
            for name, command in ((well, ["true"]), (badly, ["false"])):
                await engine.submit(manifest(name, command, gpus=0, spec=AT_ONCE))
            await engine.submit(manifest(runs, ["sleep", "1000"], grace_s=0))
            await engine.submit(manifest(waits, ["true"], gpus=9))
            await engine.until_phase(runs, "Running")
            reported(engine, runs)
            refused(engine, waits)
            for name in (runs, waits):
                gone.append((await engine.job(name))["uid"])
                await engine.scheduler.delete(name)
            await engine.until(all_gone, "they are gone")
        await engine.submit(manifest("present", ["sleep", "1000"], grace_s=0))
        await engine.until_phase("present", "Running")
        await asyncio.wait({engine.running}, timeout=2.5)  # what is measured and looked at once a second
        return mentions(engine.scheduler, gone, bounded=BOUNDED)


def test_nothing_is_left_of_jobs_that_came_and_went():
    assert asyncio.run(left_after(2)) == []


def test_names_that_come_anew_with_every_job_do_not_fill_memory_and_database(tmp_path: Path):
    """Unless its owner says otherwise, a job's category is its name."""
    book = open_book(config(tmp_path), tmp_path / "database")
    models = {(f"job-{number}", "a100"): ThroughputModel(finished=1) for number in range(2 * MODELS_MAX)}
    for key in models:
        book.learn(Knowledge(models), key)
    book.commit("many")
    often = ("often", "a100")
    book.learn(Knowledge({**models, often: ThroughputModel(finished=9)}), often)
    book.commit("one more")
    assert len(book.knowledge.models) == MODELS_MAX
    assert book.store.knowledge() == book.knowledge
    assert often in book.knowledge.models
