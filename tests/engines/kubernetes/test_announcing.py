"""What is to be told of a job is told once, wherever the operator is killed between its status and the event."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from benchmarks.scaling import NAMESPACE, elastic_job, node

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, EVENTS, MIGRATIONS, NODES, PODS, EventType, Resource
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.status.job_events import REASONS, Reason
from sterna.lifecycle.condition_rules import Kinded, of_kind
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import Body, MemoryCluster, memory_api
from tests.kubernetes.lab import Fatal, Mortal
from tests.waiting import until_async

OF_PODS = {"SuccessfulCreatePod", "SuccessfulDeletePod", "SuccessfulCreateService", "SuccessfulDeleteService"}
FLEETING = {"MigrationMoving"}  # a move may be over before an operator that is killed all the time sees it under way
PATIENCE_S = 120.0  # something that never rests fails instead of hanging
Told = dict[tuple[str, str], int]  # object and reason: how often


class Lives:
    """An operator that is started again as often as it dies. `dies_of`: after which requests."""

    def __init__(self, cluster: MemoryCluster, dies_of: Fatal | None) -> None:
        self.deaths = 0
        self.operator: Operator | None = None
        self._cluster = cluster
        self._dies_of = dies_of

    async def run(self) -> None:
        while True:
            config = OperatorConfig(
                namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0, retry_s=0.05
            )
            mortal: Any = Mortal(memory_api(self._cluster), after=True, dies_of=self._dies_of)
            self.operator = Operator(config, mortal, parse=workload_of_object, read_migration=read_migration)
            try:
                await self.operator.run()
            except asyncio.CancelledError:
                raise
            except BaseException:
                assert mortal.dead
                self.deaths += 1

    async def rest(self) -> None:
        """Until nothing is left to do and everything is told, for a while."""
        calm = 0

        def is_calm() -> bool:
            nonlocal calm
            operator = self.operator
            rests = operator is not None and operator.at_rest and operator.carrier.has_told_all
            calm = calm + 1 if rests and operator is not None and operator.decider.cycles else 0
            return calm > 3

        await until_async(is_calm, "it is at rest", patience_s=PATIENCE_S)


def status_of_a_job(verb: str, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return verb == "patch" and given[0] == ELASTIC_JOBS and named.get("subresource") == "status"


def event(verb: str, given: tuple[Any, ...], _: dict[str, Any]) -> bool:
    return verb in ("create", "patch") and given[0] == EVENTS


def status_of_a_migration(verb: str, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return verb == "patch" and given[0] == MIGRATIONS and named.get("subresource") == "status"


@asynccontextmanager
async def lives(cluster: MemoryCluster, dies_of: Fatal | None):
    found = Lives(cluster, dies_of)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def edited(cluster: MemoryCluster, resource: Resource, name: str, change: Callable[[Body], None]) -> None:
    found = cluster.find(resource, name, NAMESPACE)
    assert found is not None
    change(found)
    cluster.put(resource, found, EventType.MODIFIED)


def suspend(on: bool) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        body["spec"].setdefault("runPolicy", {})["suspend"] = on
        body["metadata"]["generation"] += 1

    return change


def exits(code: int) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        ended = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}
        statuses = [{"name": each["name"], "state": ended} for each in body["spec"]["containers"]]
        body["status"] = {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": statuses}

    return change


async def a_life(cluster: MemoryCluster, rest: Callable[[], Awaitable[None]]) -> None:
    """Everything that may become of a job."""
    for name in ("n1", "n2", "n3"):
        cluster.put(NODES, node(name, gpus=2))
    job = elastic_job("job")
    job["spec"] |= {"workers": {"min": 1, "max": 2}, "restartPolicy": "ExitCode"}
    cluster.put(ELASTIC_JOBS, job)
    await rest()
    broken = elastic_job("broken")
    broken["spec"]["workers"] = {"min": 3, "max": 1}
    cluster.put(ELASTIC_JOBS, broken)
    await rest()
    cluster.put(ELASTIC_JOBS, elastic_job("big", workers=9))  # which waits for ever
    await rest()
    other = elastic_job("other", workers=5)  # for which the first one shrinks
    other["spec"]["restartPolicy"] = "Never"
    cluster.put(ELASTIC_JOBS, other)
    await rest()
    edited(cluster, PODS, "other-worker-0", exits(1))
    await rest()
    cluster.put(MIGRATIONS, {"metadata": {"name": "move", "namespace": NAMESPACE}, "spec": {"job": "job"}})
    await rest()
    found = cluster.find(PODS, "job-worker-0", NAMESPACE)
    assert found is not None
    cluster.put(PODS, found, EventType.DELETED)  # somebody does
    await rest()
    edited(cluster, PODS, "job-worker-0", exits(137))
    await rest()
    for on in (True, False):
        edited(cluster, ELASTIC_JOBS, "job", suspend(on))
        await rest()
    for name in sorted(name for _, name in cluster.objects[PODS]):
        edited(cluster, PODS, name, exits(0))
    await rest()


def told(cluster: MemoryCluster) -> Told:
    found: Told = {}
    for body in cluster.objects[EVENTS].values():
        key = (body["involvedObject"]["name"], body["reason"])
        found[key] = found.get(key, 0) + body["count"]
    return {key: count for key, count in found.items() if key[1] not in {*OF_PODS, *FLEETING}}


async def lived(dies_of: Fatal | None) -> tuple[Told, int]:
    cluster = MemoryCluster()
    async with asyncio.timeout(300), lives(cluster, dies_of) as found:
        await a_life(cluster, found.rest)
        return told(cluster), found.deaths


@pytest.fixture(scope="module")
def undisturbed() -> Told:
    return asyncio.run(lived(None))[0]


def test_the_life_has_what_may_be_told_of_a_job(undisturbed: Told):
    reasons = {reason for _, reason in undisturbed}
    assert reasons >= {
        *(of_kind("ElasticJob", each) for each in (Kinded.CREATED, Kinded.RUNNING, Kinded.RESTARTING)),
        *(of_kind("ElasticJob", each) for each in (Kinded.SUCCEEDED, Kinded.FAILED)),
        *(Reason.PLACED, Reason.QUEUED, Reason.SCALED_DOWN, Reason.MIGRATED, Reason.RESTARTED),
        *(Reason.SUSPENDED, Reason.RESUMED, Reason.EXITED),
        *("InvalidElasticJobSpec", "MigrationSucceeded"),
    }
    assert reasons - REASONS == {"MigrationSucceeded"}


@pytest.mark.parametrize("dies_of", [status_of_a_job, event, status_of_a_migration])
def test_voda_28_an_operator_that_dies_between_status_and_event_tells_everything_once(
    undisturbed: Told, dies_of: Fatal
):
    found, deaths = asyncio.run(lived(dies_of))
    assert deaths
    assert found == undisturbed
