"""Failures that are forgiven are forgotten: the next one is the first again, also where it is written down."""

import asyncio

from sterna.lifecycle import retry
from tests.engines.local.lab import lab, manifest


def test_a_job_that_trained_well_since_its_last_failure_counts_anew(monkeypatch):
    monkeypatch.setattr(retry, "FORGIVEN_AFTER_S", 0.0)  # any time is long enough

    async def story() -> None:
        async with lab(gpus=1) as engine:
            spec = "runPolicy: {backoffLimit: 1}"
            await engine.submit(manifest("a", ["false"], spec=spec, template="restartPolicy: OnFailure"))

            async def tried_three_times() -> bool:
                return bool((await engine.job("a"))["restarts"] >= 3)

            await engine.until(tried_three_times, "it was started again three times")
            (job,) = engine.scheduler._life.book.jobs.values()
            assert job.row.failures == 1

    asyncio.run(story())
