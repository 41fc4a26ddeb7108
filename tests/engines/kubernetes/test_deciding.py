"""A decision takes longer than the Lease: the operator leads on, answers, and carries out what it decided."""

import asyncio
import json
import threading
import urllib.request
from dataclasses import replace
from typing import Any

from benchmarks.scaling import NAMESPACE, elastic_job, node

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, LEASES, NODES, PODS, EventType
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.plan import Grow, Held, Outcome
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import MemoryCluster, memory_api
from tests.waiting import until_async


class Brooding:
    """A policy that does not answer until it may."""

    name = "brooding"

    def __init__(self, policy: Any) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self._policy = policy

    def __call__(self, view: Snapshot) -> Target:
        self.began.set()
        assert self.may_end.wait(120)
        target: Target = self._policy(view)
        return target


async def until(holds: Any) -> None:
    await until_async(holds)


def renewed(cluster: MemoryCluster) -> int:
    return cluster.requests["patch", LEASES.kind]


async def probed(port: int) -> dict[str, Any]:
    def ask() -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
            body: bytes = answer.read()
            return body

    found: dict[str, Any] = json.loads(await asyncio.to_thread(ask))
    return found


async def renamed() -> Outcome:
    """Between the look and the deed a job is deleted, and another one gets its name."""
    cluster = MemoryCluster()
    cluster.put(NODES, node("n1", gpus=0))
    first = cluster.put(ELASTIC_JOBS, elastic_job("job"))
    config = OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), rate_limit_s=0.0, elect=False)
    operator = Operator(config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration)
    operator.pause_cycles()
    running = asyncio.create_task(operator.run())
    try:
        await until(lambda: operator.leads and _state(cluster) == "Waiting" and operator.at_rest)
        view = await operator.engine.observe()
        assert [job.id for job in view.jobs] == [f"{NAMESPACE}/job"]
        cluster.put(ELASTIC_JOBS, first, EventType.DELETED)
        cluster.put(ELASTIC_JOBS, elastic_job("job"))
        await until(lambda: _state(cluster) == "Waiting" and operator.at_rest)
        worker = Worker(Role.WORKER, 0, NodeId("n1"))
        (outcome,) = await operator.engine.apply([Grow(view.jobs[0].id, (worker,), Because(Why.NEXT_IN_ORDER))])
        return outcome
    finally:
        operator.stop()
        await running


def _state(cluster: MemoryCluster) -> str:
    found = cluster.find(ELASTIC_JOBS, "job", NAMESPACE)
    return "" if found is None else str(found.get("status", {}).get("scheduling", {}).get("state"))


def test_what_was_decided_of_a_job_is_not_done_to_another_one_of_its_name():
    assert asyncio.run(asyncio.wait_for(renamed(), 120)).held is Held.STALE


async def brooded() -> None:
    cluster = MemoryCluster()
    cluster.put(NODES, node("n1", gpus=2))
    cluster.put(ELASTIC_JOBS, elastic_job("job"))
    config = OperatorConfig(
        namespace=NAMESPACE, watch=(NAMESPACE,), rate_limit_s=0.0, lease_s=3.0, renew_s=0.5, retry_s=0.2, health_port=0
    )
    operator = Operator(config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration)
    brooding: Any = Brooding(operator.rules.size)
    operator.rules = replace(operator.rules, size=brooding)
    running = asyncio.create_task(operator.run())
    try:
        await until(brooding.began.is_set)
        (lease,) = cluster.objects[LEASES].values()
        epoch, before = lease["spec"]["leaseTransitions"], renewed(cluster)
        await until(lambda: renewed(cluster) > before + 2 * config.lease_s / config.renew_s)  # two Leases long
        assert operator.leads
        assert operator.health_port is not None
        assert (await probed(operator.health_port))["role"] == "leader"
        assert cluster.objects[PODS] == {}
        brooding.may_end.set()
        await until(lambda: cluster.objects[PODS])
        (lease,) = cluster.objects[LEASES].values()
        assert lease["spec"]["leaseTransitions"] == epoch
    finally:
        brooding.may_end.set()
        operator.stop()
        await running


def test_a_decision_longer_than_the_lease_costs_neither_the_lease_nor_an_answer():
    asyncio.run(asyncio.wait_for(brooded(), 120))
