"""Gangs that grow, shrink and move while they train: warm where there is room, cold where there is none."""

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from sterna.model.errors import Conflict, NotFound
from tests.engines.local.lab import TOY, Lab, lab, manifest, toy, traced, trained_by_one_at_a_time


async def moved(engine: Lab, name: str) -> dict[str, Any]:
    """The latest migration of the job, once it is over."""

    async def over() -> bool:
        found = await engine.scheduler.migrations(name)
        return bool(found) and found[-1]["finishedAt"] is not None

    await engine.until(over, f"{name} has moved")
    return (await engine.scheduler.migrations(name))[-1]


def test_a_warm_migration_starts_the_new_worker_first_and_loses_nothing():
    async def story() -> None:
        async with lab(nodes=2, gpus=1) as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", "slow=0.5", steps=150))
            job = await engine.until_step("a", 10)
            there = "node-2" if job["nodes"] == ["node-1"] else "node-1"
            asked = await engine.scheduler.migrate("a", worker=None, to=there)
            assert (asked["phase"], asked["requested"]) == ("Pending", True)
            assert (await engine.scheduler.migrate("a", worker=None, to=there))["id"] == asked["id"]
            record = await moved(engine, "a")
            assert record["id"] == asked["id"]
            assert (record["phase"], record["warm"], record["stepsLost"]) == ("Succeeded", True, 0)
            assert (record["from"], record["to"]) == (job["nodes"][0], there)
            assert record["step"] == record["stepAfter"]
            said = [event["message"] for event in await engine.scheduler.events("a") if event["reason"] == "Migrating"]
            assert len(said) == 1
            assert said[0].endswith(f"it was asked to move (to {there})"), (
                "it is not told that the node suits it better"
            )
            assert record["downtimeSeconds"] < 0.5  # it takes half a second to come up, which nobody waited for
            done = await engine.until_phase("a", "Succeeded")
            assert (done["migrations"], done["stepsLost"]) == (1, 0)
            assert [row[2] for row in traced(trace)] == list(range(1, 151))
            assert trained_by_one_at_a_time(trace)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param((), "there is no room beside the old gang", id="no room"),
        pytest.param(("mute",), "the program never attached", id="a program without the SDK"),
    ],
)
def test_a_resize_is_cold_where_it_must_be(options, why):
    async def story() -> None:
        async with lab(nodes=1, gpus=2) as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", *options, steps=400, workers=(1, 2)))
            await engine.until_workers("a", 2)
            await engine.submit(toy("b", steps=30))
            await engine.until_phase("b", "Succeeded")
            await engine.until_workers("a", 2)
            job = await engine.job("a")
            assert {change["warm"] for change in job["history"]} == {False}, why
            assert trained_by_one_at_a_time(trace)

    asyncio.run(story())


def test_a_drained_node_is_emptied_and_nothing_is_lost():
    async def story() -> None:
        async with lab(nodes=3, gpus=1) as engine:
            await engine.submit(toy("a", steps=200) + "---" + toy("b", steps=200))
            jobs = [await engine.until_step("a", 5), await engine.until_step("b", 5)]
            node = jobs[0]["nodes"][0]
            record = await engine.scheduler.drain(node)
            assert record["schedulable"] is False
            migration = await moved(engine, "a")
            assert migration["reason"] == "NodeDrained"
            assert node not in (await engine.job("a"))["nodes"]
            assert (await engine.scheduler.uncordon(node))["schedulable"] is True
            for name in ("a", "b"):
                assert (await engine.until_phase(name, "Succeeded"))["stepsLost"] == 0

    asyncio.run(story())


def test_a_gang_of_several_moves_as_one():
    async def story() -> None:
        async with lab(nodes=2, gpus=2) as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", steps=150, workers=(2, 2)))
            job = await engine.until_step("a", 10)
            there = "node-2" if job["nodes"] == ["node-1"] else "node-1"
            await engine.scheduler.migrate("a", worker=None, to=there)
            record = await moved(engine, "a")
            assert (record["warm"], record["stepsLost"]) == (True, 0)
            done = await engine.until_phase("a", "Succeeded")
            assert done["incarnation"] == 2
            assert trained_by_one_at_a_time(trace)

    asyncio.run(story())


def test_moves_that_cannot_be_are_refused_with_a_reason():
    async def story() -> None:
        async with lab(nodes=3, gpus=1) as engine:
            await engine.submit(toy("a", steps=5000) + "---" + toy("b", steps=5000))
            here = (await engine.until_step("a", 2))["nodes"][0]
            taken = (await engine.until_step("b", 2))["nodes"][0]
            with pytest.raises(Conflict, match="already"):
                await engine.scheduler.migrate("a", worker=None, to=here)
            with pytest.raises(Conflict, match="GPU free"):
                await engine.scheduler.migrate("a", worker=None, to=taken)
            with pytest.raises(NotFound, match="nowhere"):
                await engine.scheduler.migrate("a", worker=None, to="nowhere")
            (free,) = {"node-1", "node-2", "node-3"} - {here, taken}
            await engine.scheduler.drain(free)
            with pytest.raises(Conflict, match="drained"):
                await engine.scheduler.migrate("a", worker=None, to=free)
            with pytest.raises(Conflict, match="no other node"):
                await engine.scheduler.migrate("a", worker=None, to=None)
            await engine.scheduler.uncordon(free)
            await engine.scheduler.migrate("a", worker=0, to=None)
            assert (await moved(engine, "a"))["to"] == free

    asyncio.run(story())


def test_a_gang_that_fails_to_come_up_does_not_stop_the_one_that_trains():
    """The second incarnation crashes on its way up: the old gang stops, and the third one goes on from its state."""

    async def story() -> None:
        async with lab(nodes=2, gpus=1) as engine:
            script = (
                "if [ $STERNA_INCARNATION = 2 ]; then exit 9; fi; "
                f"exec {sys.executable} -S -E {TOY} 120 0.02 trace=trace"
            )
            await engine.submit(manifest("a", ["sh", "-c", script]))
            job = await engine.until_step("a", 10)
            there = "node-2" if job["nodes"] == ["node-1"] else "node-1"
            await engine.scheduler.migrate("a", worker=None, to=there)
            record = await moved(engine, "a")
            assert (record["phase"], record["stepsLost"]) == ("Succeeded", 0)
            await engine.until_event("WarmStartFailed", "default/a")
            done = await engine.until_phase("a", "Succeeded")
            assert done["incarnation"] == 3
            assert [row[2] for row in traced(engine.home / "trace")] == list(range(1, 121))

    asyncio.run(story())


def test_r5_a_lost_node_costs_no_more_than_the_last_checkpoint_interval():
    async def story() -> None:
        async with lab(nodes=2, gpus=1) as engine:
            trace = engine.home / "trace"
            await engine.submit(toy("a", f"trace={trace}", steps=150))
            here = (await engine.until_step("a", 50))["nodes"][0]
            await engine.scheduler.set_ready(here, ready=False)
            done = await engine.until_phase("a", "Succeeded")
            (restart,) = [change for change in done["history"] if change["kind"] == "restart"]
            assert (restart["reason"], restart["phase"]) == ("NodeLost", "Succeeded")
            assert restart["stepsLost"] <= 20  # it saves every 20 steps
            assert done["nodes"] == []
            assert trained_by_one_at_a_time(trace)
            fence = json.loads((engine.home / "jobs" / done["uid"] / "checkpoints" / "fence.json").read_text())
            assert 2 in fence.values()  # whoever is left of the first incarnation may write no more

    asyncio.run(story())


PS_JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: {name}}}
spec:
  max-instances: {most}
  min-instances: 1
  tfReplicaSpecs:
    PS:
      replicas: 1
      template: {{spec: {{terminationGracePeriodSeconds: 1, containers: [{{name: tensorflow, image: none,
        command: [sh, -c, "echo $TF_CONFIG; exec sleep 1000"]}}]}}}}
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template: {{spec: {{terminationGracePeriodSeconds: 1, containers: [{{name: tensorflow, image: none,
        resources: {{limits: {{nvidia.com/gpu: 1}}}}, command: [sh, -c, "echo $TF_CONFIG; exec sleep {sleep}"]}}]}}}}
"""


def pids(job: dict[str, Any]) -> dict[str, int]:
    return {f"{w['role']}-{w['ordinal']}": w["pid"] for w in job["workerDetails"] if w["pid"]}


def test_parameter_server_jobs_grow_and_shrink_and_survivors_are_never_restarted():
    async def story() -> None:
        async with lab(nodes=1, gpus=3) as engine:
            await engine.submit(PS_JOB.format(name="tf", most=3, sleep=1000))
            before = pids(await engine.until_workers_of("tf", {"ps-0", "worker-0", "worker-1", "worker-2"}))
            await engine.submit(toy("other", steps=10_000))
            await engine.until_workers("other", 1)
            shrunk = pids(await engine.until_workers_of("tf", {"ps-0", "worker-0", "worker-1"}))
            assert shrunk.items() <= before.items()
            await engine.scheduler.delete("other")
            grown = await engine.until_workers_of("tf", {"ps-0", "worker-0", "worker-1", "worker-2"})
            assert shrunk.items() <= pids(grown).items()
            assert grown["incarnation"] == 1
            configs = {
                json.dumps(json.loads(log.path.read_text())["cluster"])
                for log in await engine.scheduler.logs("tf", None)
            }
            assert len(configs) == 1  # the same list for everybody who ever came
            assert len(json.loads(configs.pop())["worker"]) == 3

    asyncio.run(story())


def test_a_parameter_server_job_succeeds_with_worker_0_and_takes_the_server_along():
    async def story() -> None:
        async with lab(nodes=1, gpus=1) as engine:
            await engine.submit(PS_JOB.format(name="tf", most=1, sleep=1))
            job = await engine.until_phase("tf", "Succeeded", "Failed")
            assert job["phase"] == "Succeeded"

            async def gone() -> bool:
                return not pids(await engine.job("tf"))

            await engine.until(gone, "the server is gone")

    asyncio.run(story())


def test_a_worker_that_is_killed_comes_back_alone_in_its_seat():
    async def story() -> None:
        async with lab(nodes=1, gpus=2) as engine:
            await engine.submit(PS_JOB.format(name="tf", most=2, sleep=1000))
            before = pids(await engine.until_workers_of("tf", {"ps-0", "worker-0", "worker-1"}))
            os.killpg(before["worker-1"], signal.SIGKILL)

            async def back() -> bool:
                now = pids(await engine.job("tf"))
                return now.keys() == before.keys() and now["worker-1"] != before["worker-1"]

            await engine.until(back, "worker 1 is back")
            after = pids(await engine.job("tf"))
            assert (after["ps-0"], after["worker-0"]) == (before["ps-0"], before["worker-0"])
            assert (await engine.job("tf"))["restarts"] == 1

    asyncio.run(story())
