"""Every engine behind one small door, so that one suite of promises can be asked of all of them.

A world has two nodes of two GPUs each and takes jobs of one GPU a worker. `settle` lets everything come to rest that
the engine does by itself; `reopen` ends the scheduler as a crash would and begins another one over the same state.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from sterna.engines.kubernetes.apiserver.client import connect, from_kubeconfig
from sterna.engines.kubernetes.process.clock import Clock
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.local.api.service import LocalScheduler
from sterna.engines.local.process.daemon import Life
from sterna.engines.loop import Engine
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.training import SimulatedJob
from sterna.engines.simulator.world import SimulatedEngine
from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId
from sterna.model.jobs import JobSpec
from sterna.model.nodes import Cluster
from sterna.model.plan import Action, Outcome
from sterna.model.resources import Resources
from sterna.wire.manifests import read_migration, workload_of_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.requests import Api, ApiError
from tests.engines.kubernetes.operator.lab import elastic_job, torch_job
from tests.engines.local.lab import config, fresh_home, swept, toy
from tests.waiting import until_async
from tests.worlds import node

NODES, GPUS = 2, 2
WAIT_S = 40.0


class World(ABC):
    """`survivors`: may workers train on while others come and go?"""

    engine: Engine

    @abstractmethod
    async def submit(self, name: str, *, at_least: int, at_most: int, survivors: bool) -> JobId: ...

    @abstractmethod
    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]: ...

    @abstractmethod
    async def settle(self) -> None: ...

    @abstractmethod
    async def reopen(self) -> None: ...

    @abstractmethod
    async def finish(self, job_id: JobId) -> None:
        """Its owner takes it away."""


class SimulatedWorld(World):
    def __init__(self) -> None:
        self._leaving: list[JobId] = []
        self.engine: SimulatedEngine = SimulatedEngine(
            Cluster.of([node(f"node-{number}", gpus=GPUS) for number in range(1, NODES + 1)]),
            Costs(),
            on_finish_known=lambda *_: None,
            on_leaving=self._leaving.append,
        )

    async def submit(self, name: str, *, at_least: int, at_most: int, survivors: bool) -> JobId:
        self.engine.now_s += 1.0
        spec = JobSpec(
            id=JobId(f"default/{name}"),
            submitted_s=self.engine.now_s,
            request=Resources(gpu_milli=1000),
            workers_min=at_least,
            workers_max=at_most,
            workers_initial=at_least,
            restarts_on_resize=not survivors,
        )
        self.engine.arrive(SimulatedJob(spec, PacedTraining(1e6, SpeedupCurve.linear(at_most))))
        return spec.id

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        outcomes = await self.engine.apply(actions)
        self.engine.commit()
        return outcomes

    async def settle(self) -> None:
        self.engine.now_s += 1.0
        for job_id in self._leaving:
            self.engine.released(job_id)
        self._leaving.clear()

    async def reopen(self) -> None:
        """A simulation does not crash: what it knows is all there is."""

    async def finish(self, job_id: JobId) -> None:
        self.engine.finish(job_id, self.engine.now_s)


class LocalWorld(World):
    """Real processes, held by a real warden. Cycles are run by whoever asks, not by the engine."""

    def __init__(self) -> None:
        self._home = fresh_home()

    async def open(self) -> None:
        self._life = Life(config(self._home, nodes=NODES, gpus=GPUS))
        self._scheduler = LocalScheduler(self._life)
        self._running = asyncio.create_task(self._life.run())
        async with asyncio.timeout(WAIT_S):
            await self._life.ready()
        assert self._life.loop is not None
        self._life.loop.pause_cycles()
        self.engine = self._life.engine

    async def submit(self, name: str, *, at_least: int, at_most: int, survivors: bool) -> JobId:
        sizes = (at_least, at_most)
        text = _members(name, sizes) if survivors else toy(name, steps=100_000, workers=sizes, grace_s=2)
        (record,) = await self._scheduler.submit(text, cwd=str(self._home))
        return JobId(record["id"])

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        return await self.engine.apply(actions)

    async def settle(self) -> None:
        """Until nobody leaves or starts."""
        await until_async(self._settled, "nothing leaves or starts", patience_s=WAIT_S)

    async def _settled(self) -> bool:
        loop = self._life.loop
        assert loop is not None
        view = await self.engine.observe()
        rows = [process.row for job in self._life.book.jobs.values() for process in job.live]
        return loop.at_rest and not any(job.leaving for job in view.jobs) and all(row.started_s for row in rows)

    async def reopen(self) -> None:
        await self._life.close(stop_jobs=False)
        await self.open()

    async def finish(self, job_id: JobId) -> None:
        await self._scheduler.delete(job_id)

    async def close(self) -> None:
        await self._life.close(stop_jobs=False)
        await swept(self._home)


def _members(name: str, sizes: tuple[int, int]) -> str:
    """A job whose members come and go one by one: no parameter server is needed to have its contract."""
    return f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}}}
spec:
  elasticPolicy: {{minReplicas: {sizes[0]}, maxReplicas: {sizes[1]}, rdzvBackend: c10d}}
  pytorchReplicaSpecs:
    Worker:
      replicas: {sizes[0]}
      restartPolicy: OnFailure
      template: {{spec: {{terminationGracePeriodSeconds: 2, containers: [{{name: pytorch, image: none,
        resources: {{limits: {{nvidia.com/gpu: 1}}}}, command: [sleep, "1000"]}}]}}}}
"""


@asynccontextmanager
async def played_nodes(plane: ControlPlane) -> AsyncIterator[FakeNodes]:
    """node-1 and so on, which go again whatever fails: the tests that come later want the same names."""
    nodes = FakeNodes(plane.access())
    await asyncio.to_thread(nodes.__enter__)
    try:
        names = await asyncio.to_thread(nodes.add, NODES + 1, gpus=GPUS)
        await asyncio.to_thread(nodes.delete, names[0])  # they are numbered from 0, ours are from 1
        yield nodes
    finally:
        await asyncio.to_thread(nodes.__exit__, None, None, None)


@asynccontextmanager
async def running_operator(
    plane: ControlPlane, config: OperatorConfig, clock: Clock | None = None
) -> AsyncIterator[tuple[Operator, asyncio.Task[None]]]:
    """It leads, and runs cycles only when it is told to. Ends as a crash would."""
    async with connect(from_kubeconfig([plane.kubeconfig()])) as api:
        operator = Operator(config, api, parse=workload_of_object, read_migration=read_migration, clock=clock)
        operator.pause_cycles()
        running = asyncio.create_task(operator.run())
        try:
            async with asyncio.timeout(WAIT_S):
                await operator.ready()
            yield operator, running
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def delete_leftovers(api: Api, paths: Iterable[str] = ()) -> None:
    """Objects at these paths, and all services of jobs: the next world uses these names, and a new cluster's garbage
    collector does not know our kinds for a while. One that does may be faster."""
    services = "/api/v1/namespaces/default/services"
    names = [str(found["metadata"]["name"]) for found in api.items(services)]
    for path in (*paths, *(f"{services}/{name}" for name in names if name != "kubernetes")):
        try:
            api.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise


class KubernetesWorld(World):
    """A real API server and fake nodes. Cycles are run by whoever asks, not by the operator."""

    control_plane: ControlPlane  # with our kinds; set by the tests' own fixture, since starting one takes its time

    def __init__(self) -> None:
        self._api = self.control_plane.api()
        self._paths: dict[JobId, str] = {}

    @classmethod
    @asynccontextmanager
    async def begun(cls) -> AsyncIterator[World]:
        async with played_nodes(cls.control_plane):
            cluster = cls()
            await cluster.open()
            try:
                yield cluster
            finally:
                await cluster.close()

    async def open(self) -> None:
        self._doors = AsyncExitStack()
        config = OperatorConfig(namespace="default", watch=("default",), elect=False, retry_s=0.2, retry_max_s=0.5)
        begun = running_operator(self.control_plane, config)
        self._operator, self._running = await self._doors.enter_async_context(begun)
        self.engine = self._operator.engine

    async def submit(self, name: str, *, at_least: int, at_most: int, survivors: bool) -> JobId:
        body = (
            torch_job(name, low=at_least, high=at_most) if survivors else elastic_job(name, low=at_least, high=at_most)
        )
        group, plural = body["apiVersion"], f"{body['kind'].lower()}s"
        path = f"/apis/{group}/namespaces/default/{plural}"
        await asyncio.to_thread(self._api.create, path, body)
        job_id = JobId(f"default/{name}")
        self._paths[job_id] = f"{path}/{name}"
        await self._until(lambda: self._operator.world.value(job_id) is not None)
        return job_id

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        return await self.engine.apply(actions)

    async def settle(self) -> None:
        """Until nobody leaves or starts."""
        await self._until(self._is_settled)

    def _is_settled(self) -> bool:
        pods = self._operator.cache.pods
        values = self._operator.world.values.values()
        held = sum(len(job.workers) for job in values)
        runs = [pod for pod in pods if pod.status.phase == "Running" and not pod.terminating]
        return self._operator.at_rest and len(runs) == len(pods) == held and not any(job.leaving for job in values)

    async def reopen(self) -> None:
        await self._doors.aclose()
        await self.open()

    async def finish(self, job_id: JobId) -> None:
        await asyncio.to_thread(self._api.delete, self._paths.pop(job_id))
        await self._until(lambda: self._operator.world.value(job_id) is None)

    async def close(self) -> None:
        await self._doors.aclose()
        await asyncio.to_thread(delete_leftovers, self._api, self._paths.values())

    async def _until(self, holds: Callable[[], bool]) -> None:
        def looked() -> bool:
            if self._running.done():
                self._running.result()
            return holds()

        await until_async(looked, patience_s=WAIT_S)


@asynccontextmanager
async def world(kind: str) -> AsyncIterator[World]:
    if kind == "simulator":
        yield SimulatedWorld()
        return
    if kind == "kubernetes":
        async with KubernetesWorld.begun() as cluster:
            yield cluster
        return
    local = LocalWorld()
    await local.open()
    try:
        yield local
    finally:
        await local.close()


KINDS = ("simulator", "local", "kubernetes")
