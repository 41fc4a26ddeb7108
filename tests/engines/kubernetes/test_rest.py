"""An operator is at rest when what it knows is written down, not when a write failed and waits to be tried again."""

import asyncio
from typing import Any

from benchmarks.scaling import NAMESPACE, elastic_job, node

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, NODES, PODS, EventType, Unreachable, WriteConflict
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import MemoryApi, MemoryCluster
from tests.waiting import until_async


class Refusing(MemoryApi):
    """Statuses cannot be written while `error` is set."""

    error: Exception | None = None
    refused = 0

    def guarded(self, gate: Any) -> "Refusing":
        self._gate = gate
        return self

    async def patch(self, resource: Any, name: str, body: Any, **named: Any) -> Any:
        if resource == ELASTIC_JOBS and self.error is not None:
            self.refused += 1
            raise self.error
        return await super().patch(resource, name, body, **named)


async def until(holds: Any) -> None:
    await until_async(holds)


def state(cluster: MemoryCluster) -> str:
    job = cluster.find(ELASTIC_JOBS, "job", NAMESPACE)
    assert job is not None
    return str(job.get("status", {}).get("scheduling", {}).get("state"))


def ready(cluster: MemoryCluster, on: bool) -> None:
    pod = cluster.find(PODS, "job-worker-0", NAMESPACE)
    assert pod is not None
    pod["status"]["phase"] = "Running" if on else "Pending"
    pod["status"]["conditions"] = [{"type": "Ready", "status": str(on)}]
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    for each in pod["status"]["containerStatuses"]:
        each |= {"ready": on, "state": running if on else {"waiting": {"reason": "ContainerCreating"}}}
    cluster.put(PODS, pod, EventType.MODIFIED)


async def tried(error: Exception) -> None:
    cluster = MemoryCluster()
    cluster.put(NODES, node("n1", gpus=1))
    cluster.put(ELASTIC_JOBS, elastic_job("job"))
    api: Any = Refusing(cluster)
    config = OperatorConfig(
        namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0, retry_s=0.3, retry_max_s=0.3
    )
    operator = Operator(config, api, parse=workload_of_object, read_migration=read_migration)
    running = asyncio.create_task(operator.run())
    try:
        await until(lambda: state(cluster) == "Running" and operator.at_rest)
        ready(cluster, False)
        await until(lambda: state(cluster) == "Starting" and operator.at_rest)
        api.error = error
        ready(cluster, True)
        await until(lambda: api.refused)
        rested = []

        def looked() -> bool:
            rested.append(operator.at_rest)
            return bool(api.refused >= 3)

        await until_async(looked, "it is tried again")
        assert not any(rested[:-1])
        api.error = None
        await until(lambda: operator.at_rest)
        assert state(cluster) == "Running"
    finally:
        operator.stop()
        await running


def test_r3_a_status_that_could_not_be_written_is_not_rest():
    for error in (Unreachable("cut off", retry_after_s=0.1), WriteConflict("somebody wrote")):
        asyncio.run(asyncio.wait_for(tried(error), 120))
