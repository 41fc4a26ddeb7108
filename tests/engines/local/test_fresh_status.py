"""A gang that is told to stop is judged by what its ranks have written, not by what was read of them a while ago."""

import asyncio

from sterna.protocol import Status, WorkerPhase
from sterna.protocol.mailbox import write_status
from tests.engines.local.lab import lab, manifest


def test_a_rank_that_attached_a_moment_ago_is_known_to_have_when_its_job_is_looked_at():
    async def story() -> None:
        async with lab(gpus=1) as engine:
            await engine.submit(manifest("a", ["sleep", "600"]))
            await engine.until_workers("a", 1)
            life = engine.scheduler._life
            (job,) = life.book.jobs.values()
            (process,) = job.live
            assert process.status is None
            write_status(life.home.mailbox(job.row.uid, process.row.uid), Status(pid=1, phase=WorkerPhase.RESTORING))
            assert life._runner is not None
            life._runner.settle(job)
            assert process.status is not None

    asyncio.run(story())
