"""What admission makes of pods, before a cluster in memory: how often it is asked, and what is counted then."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.scaling import NAMESPACE, elastic_job, node, stranger

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, NODES, PODS, EventType
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.model.ids import JobId
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import Body, MemoryApi, MemoryCluster
from tests.waiting import until_async


def as_written(_: Body) -> None:
    pass


def cpus(amount: str) -> Callable[[Body], None]:
    def admitted(pod: Body) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": amount}

    return admitted


class Admitting(MemoryApi):
    """`tried` is what admission does to a pod of a dry run, `made` to one that is created."""

    tried: Callable[[Body], None] = staticmethod(as_written)
    made: Callable[[Body], None] = staticmethod(as_written)

    def guarded(self, gate: Any) -> "Admitting":
        self._gate = gate
        return self

    async def create(self, resource: Any, body: Body, *, dry_run: bool = False, **named: Any) -> Any:
        body = copy.deepcopy(body)
        if resource == PODS:
            (self.tried if dry_run else self.made)(body)
        return await super().create(resource, body, dry_run=dry_run, **named)


@asynccontextmanager
async def operated(cluster: MemoryCluster, api: Any) -> AsyncIterator[Operator]:
    config = OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0)
    operator = Operator(config, api, parse=workload_of_object, read_migration=read_migration)
    running = asyncio.create_task(operator.run())
    try:
        yield operator
    finally:
        operator.stop()
        await running


def small_node(name: str) -> Body:
    body = node(name, gpus=8)
    body["status"]["allocatable"] = body["status"]["capacity"] = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    return body


def cluster_with(nodes: int, *jobs: str) -> MemoryCluster:
    cluster = MemoryCluster()
    for number in range(nodes):
        cluster.put(NODES, small_node(f"n{number}"))
    for name in jobs:
        cluster.put(ELASTIC_JOBS, elastic_job(name))
    return cluster


def state(cluster: MemoryCluster, name: str) -> str:
    job = cluster.find(ELASTIC_JOBS, name, NAMESPACE)
    return "" if job is None else str(job.get("status", {}).get("scheduling", {}).get("state"))


def guests(operator: Operator, name: str = "n0") -> dict[str, int]:
    found = [guest for node in operator.world.roster.cluster.nodes if node.id == name for guest in node.guests]
    return {guest.id.removeprefix(f"{NAMESPACE}/"): guest.request.cpu_milli for guest in found}


def test_two_hundred_jobs_of_one_template_ask_once():
    async def play() -> None:
        cluster = cluster_with(50, *(f"job-{number}" for number in range(200)))
        async with operated(cluster, Admitting(cluster)) as operator:
            await until_async(lambda: cluster.requests["create", "Pod"] == 200 and operator.at_rest)
            assert cluster.requests["dry run", "Pod"] == 1

    asyncio.run(asyncio.wait_for(play(), 300))


def test_a_pod_that_is_made_larger_than_was_said_is_counted_as_it_is_and_so_are_those_that_come():
    async def play() -> None:
        cluster = cluster_with(1, "first")
        api = Admitting(cluster)
        api.made = cpus("5")
        async with operated(cluster, api) as operator:
            await until_async(lambda: state(cluster, "first") == "Running" and operator.at_rest)
            first = operator.world.value(JobId(f"{NAMESPACE}/first"))
            assert first is not None
            assert first.spec.request.cpu_milli == 5000
            assert not guests(operator), "its job answers for all of it"
            cluster.put(ELASTIC_JOBS, elastic_job("second"))
            await until_async(lambda: state(cluster, "second") == "Waiting" and operator.at_rest)
            assert cluster.requests["dry run", "Pod"] == 1, "what was made tells more than a dry run"
            assert cluster.requests["create", "Pod"] == 1

    asyncio.run(asyncio.wait_for(play(), 120))


def test_a_worker_that_is_resized_in_place_takes_room_and_no_other_worker_moves():
    async def play() -> None:
        cluster = cluster_with(1)
        cluster.put(ELASTIC_JOBS, elastic_job("gang", workers=3))
        async with operated(cluster, Admitting(cluster)) as operator:
            await until_async(lambda: state(cluster, "gang") == "Running" and operator.at_rest)
            pod = cluster.find(PODS, "gang-worker-1", NAMESPACE)
            assert pod is not None
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "6", "nvidia.com/gpu": "1"}}
            cluster.put(PODS, pod, EventType.MODIFIED)
            await until_async(lambda: guests(operator) == {"gang-worker-1": 5000} and operator.at_rest)
            assert cluster.requests["create", "Pod"] == 3
            assert cluster.requests["delete", "Pod"] == 0

    asyncio.run(asyncio.wait_for(play(), 120))


def test_guests_that_ask_as_a_whole_or_are_resized_are_counted_from_the_watch_on():
    async def play() -> None:
        cluster = cluster_with(1)
        async with operated(cluster, Admitting(cluster)) as operator:
            guest = stranger("guest", "n0")
            guest["spec"]["resources"] = {"requests": {"cpu": "3"}}
            cluster.put(PODS, guest)
            await until_async(lambda: guests(operator) == {"guest": 3000})
            other = stranger("other", "n0")
            cluster.put(PODS, other)
            await until_async(lambda: guests(operator) == {"guest": 3000, "other": 1})
            given = {"name": "main", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}
            other["status"]["containerStatuses"] = [given]
            cluster.put(PODS, other, EventType.MODIFIED)
            await until_async(lambda: guests(operator) == {"guest": 3000, "other": 2000})

    asyncio.run(asyncio.wait_for(play(), 120))
