"""What the operator still holds of jobs that came and went: nothing, outside of tables that are bounded by number."""

import asyncio
from dataclasses import replace

from benchmarks.scaling import NAMESPACE, at_rest, elastic_job, node

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, MIGRATIONS, NODES, PODS, SERVICES, EventType
from sterna.engines.kubernetes.apiserver.write_fuse import WriteFuse
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.progress.training_facts import Lessons
from sterna.engines.kubernetes.status.event_recorder import Recorder
from sterna.engines.kubernetes.status.standing import Progress, Seat, Standing
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.learning import MODELS_MAX, Knowledge, ThroughputModel
from sterna.model.phases import Phase
from sterna.protocol.reports import Batch, Refusal, Report
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import MemoryCluster, memory_api
from tests.reachable import mentions
from tests.worlds import job

GONE = "gone"  # in every name of what is gone, and so in every uid that the cluster in memory gives
BOUNDED = {Store: "_tombstones", Recorder: "_written _buckets", Knowledge: "models", WriteFuse: "_budgets"}
WORKERS = 2
SEAT = Seat(Worker(Role.WORKER, 0, NodeId("n1")), "abcde")


def put_job(cluster: MemoryCluster, name: str, *, workers: int = WORKERS) -> None:
    cluster.put(ELASTIC_JOBS, elastic_job(name, workers=workers))


def reported(operator: Operator, name: str) -> None:
    """Something that is taken, something that is refused, something that is not understood."""
    pod = f"{NAMESPACE}/{name}-worker-0"
    said = [
        Report(pod, number, 1000.0 + number, units_done=10.0 * number, step_s=0.5, value=1.0 / number)
        for number in (1, 2, 3)
    ]
    faults = {pod: "a pattern that takes too long"}
    operator.reporting.take(Batch(tuple(said), node="", refused=(Refusal(0, pod, "no number"),), faults=faults))


def end(cluster: MemoryCluster, name: str, code: int) -> None:
    for body in [body for (_, pod), body in cluster.objects[PODS].items() if pod.startswith(f"{name}-")]:
        ended = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
        statuses = [{"name": each["name"], "state": ended} for each in body["spec"]["containers"]]
        body["status"] = {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": statuses}
        cluster.put(PODS, body, EventType.MODIFIED)


def delete(cluster: MemoryCluster, name: str) -> None:
    """As somebody does; and what was its own, as the garbage collector does."""
    for resource in (ELASTIC_JOBS, MIGRATIONS, PODS, SERVICES):
        for body in [body for (_, key), body in cluster.objects[resource].items() if f"{key}-".startswith(f"{name}-")]:
            cluster.put(resource, body, EventType.DELETED)


async def lives(cluster: MemoryCluster, operator: Operator, number: int) -> None:
    """One ends well, one fails, one is deleted while it runs and is moved, one while it waits, one is wrong."""
    well, badly, running, waiting, wrong = (f"{GONE}-{number}-{each}" for each in "abcde")
    for name in (well, badly, running):
        put_job(cluster, name)
    put_job(cluster, waiting, workers=99)
    put_job(cluster, wrong, workers=-1)
    await at_rest(operator)
    for name in (well, badly, running, waiting):
        reported(operator, name)
    cluster.put(MIGRATIONS, {"metadata": {"name": f"{running}-move", "namespace": NAMESPACE}, "spec": {"job": running}})
    await at_rest(operator)
    end(cluster, well, 0)
    end(cluster, badly, 1)
    await at_rest(operator)
    for name in (well, badly, running, waiting, wrong):
        delete(cluster, name)
    await at_rest(operator)


async def left_after(rounds: int) -> list[str]:
    cluster = MemoryCluster()
    for name in ("n1", "n2"):
        cluster.put(NODES, node(name, gpus=4))
    config = OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0, retry_s=0.05)
    operator = Operator(config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration)
    running = asyncio.create_task(operator.run())
    try:
        await operator.ready()
        for number in range(rounds):
            await lives(cluster, operator, number)
        put_job(cluster, "present")  # so that the latest decision, which is kept, is about another one
        await at_rest(operator)
        assert cluster.find(PODS, "present-worker-0", NAMESPACE) is not None
        return mentions(operator, [GONE], but=cluster, bounded=BOUNDED)
    finally:
        operator.stop()
        await running


def test_nothing_is_left_of_jobs_that_came_and_went():
    assert asyncio.run(asyncio.wait_for(left_after(2), 120)) == []


def test_a_namespace_that_names_every_job_anew_does_not_fill_the_memory():
    """Unless its owner says otherwise, a job's category is its name."""
    lessons = Lessons(lambda _: "a100")
    many = {(f"team/job-{number}", "a100"): ThroughputModel(finished=1) for number in range(2 * MODELS_MAX)}
    lessons.begin(Knowledge({**many, ("other/resnet", "a100"): ThroughputModel(finished=1)}))
    spec = replace(job("team/one-more").spec, category="one-more")
    before = Standing(phase=Phase.RUNNING, seats=(SEAT,))
    lessons.written(spec, before, replace(before, phase=Phase.SUCCEEDED, progress=Progress(units_done=5.0)))
    assert len(lessons.knowledge.models) == MODELS_MAX
    assert ("other/resnet", "a100") in lessons.knowledge.models
