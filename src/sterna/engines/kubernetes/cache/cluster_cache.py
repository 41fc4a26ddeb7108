"""What is known of the cluster: one store for each kind of object, fed by watches.

Pods of the watched namespaces (of all, if that is wanted) are here whatever made them, since all of them take room;
services, too, because users of these kinds know which labels ours have, and there is none that all of them share;
config maps only as far as they are ours, and of the operator's own namespace those that it knows by name. An MPIJob
has two versions and is watched through one of them. Nothing is decided here.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from sterna.engines.kubernetes.apiserver.objects import (
    ConfigMapObject,
    JobObject,
    KubeObject,
    MigrationObject,
    NodeObject,
    Pod,
    ServiceObject,
    SharePodObject,
)
from sterna.engines.kubernetes.apiserver.ownership import JobKey, job_key_of
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    ELASTIC_JOBS,
    MIGRATIONS,
    MPI_JOBS,
    MPI_JOBS_V2,
    NODES,
    PODS,
    PYTORCH_JOBS,
    SERVICES,
    SHARE_PODS,
    TF_JOBS,
    Api,
    Resource,
    T,
)
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.cache.reflector import Reflector
from sterna.engines.kubernetes.kubeshare.sharepods import shadow_of
from sterna.engines.kubernetes.process.clock import Clock
from sterna.engines.kubernetes.process.settings import OWN_CONFIG_MAPS, OperatorConfig
from sterna.model.errors import SternaError

log = logging.getLogger(__name__)

OURS = "app.kubernetes.io/managed-by=sterna"  # label of config maps that belong to jobs
KINDS = ((TF_JOBS,), (PYTORCH_JOBS,), (MPI_JOBS, MPI_JOBS_V2), (ELASTIC_JOBS,))  # each by the first that is served
ABSENT_S = 60.0  # a kind that the cluster does not have is asked for again this often


class Cache:
    def __init__(self, api: Api, config: OperatorConfig, clock: Clock) -> None:
        self.nodes: Store[NodeObject] = Store()
        self.pods: Store[Pod] = Store(
            {"job": _job, "node": lambda pod: pod.spec.node_name or None, "shadow": shadow_of}
        )
        self.services: Store[ServiceObject] = Store({"job": _job})
        self.config_maps: Store[ConfigMapObject] = Store()
        self.jobs: dict[Resource, Store[JobObject]] = {kind: Store() for kinds in KINDS for kind in kinds}
        self.migrations: Store[MigrationObject] = Store()
        self.share_pods: Store[SharePodObject] = Store()  # empty unless the operator is told to look at them
        self.own: Store[ConfigMapObject] = Store()  # of the operator's namespace: configuration and memory
        self._api = api
        self._config = config
        self._clock = clock
        self._reflectors: list[Reflector[Any]] = []
        kinds = KINDS if config.mpi_jobs else tuple(kinds for kinds in KINDS if MPI_JOBS not in kinds)
        self._kinds = (*kinds, (MIGRATIONS,), *(((SHARE_PODS,),) if config.kubeshare else ()))
        # By kind: is it known whether the cluster has it?
        self._asked = {kinds[0].kind: asyncio.Event() for kinds in self._kinds}

    async def run(self) -> None:
        """Keep everything up to date, until cancelled."""
        config = self._config
        async with asyncio.TaskGroup() as group:
            self._reflect(group, NODES, self.nodes, NodeObject, [None])
            self._reflect(group, PODS, self.pods, Pod, [None] if config.see_all_pods else self._namespaces)
            self._reflect(group, SERVICES, self.services, ServiceObject, self._namespaces)
            if config.mpi_jobs:  # other jobs have none
                self._reflect(group, CONFIG_MAPS, self.config_maps, ConfigMapObject, self._namespaces, labels=OURS)
            for name in sorted(OWN_CONFIG_MAPS):
                self._reflect(group, CONFIG_MAPS, self.own, ConfigMapObject, [config.namespace], name=name)
            for versions in self._kinds:
                group.create_task(self._follow(group, versions))

    async def synced(self) -> None:
        """Until everything has been listed once."""
        for asked in self._asked.values():
            await asked.wait()
        for reflector in self._reflectors:
            await reflector.synced.wait()

    @property
    def is_synced(self) -> bool:
        known = all(asked.is_set() for asked in self._asked.values())
        return known and all(reflector.synced.is_set() for reflector in self._reflectors)

    @property
    def trouble(self) -> str:
        """What goes wrong at present; empty: nothing."""
        return next((reflector.trouble for reflector in self._reflectors if reflector.trouble), "")

    @property
    def _namespaces(self) -> Sequence[str | None]:
        return [None] if self._config.watch is None else self._config.watch

    async def _follow(self, group: asyncio.TaskGroup, versions: Sequence[Resource]) -> None:
        """Watch a kind through the first version that is served; ask again now and then while there is none."""
        asked = self._asked[versions[0].kind]
        while True:
            try:
                served = [kind for kind in versions if await self._api.serves(kind)]
            except SternaError as error:
                log.warning("the API server does not tell its kinds", extra={"why": str(error)})
                await self._clock.sleep(self._config.retry_s)
                continue
            if served:
                break
            if not asked.is_set():
                log.warning("the cluster has no such kind", extra={"kind": versions[0].kind})
                asked.set()
            await self._clock.sleep(ABSENT_S)
        kind = served[0]
        if kind is MIGRATIONS:
            self._reflect(group, kind, self.migrations, MigrationObject, self._namespaces)
        elif kind is SHARE_PODS:
            self._reflect(group, kind, self.share_pods, SharePodObject, self._namespaces)
        else:
            self._reflect(group, kind, self.jobs[kind], JobObject, self._namespaces)
        asked.set()

    def _reflect(
        self,
        group: asyncio.TaskGroup,
        resource: Resource,
        store: Store[T],
        shape: type[T],
        namespaces: Sequence[str | None],
        *,
        labels: str = "",
        name: str = "",
    ) -> None:
        for namespace in namespaces:
            reflector: Reflector[T] = Reflector(
                self._api,
                resource,
                store,
                shape=shape,
                namespace=namespace,
                labels=labels,
                name=name,
                clock=self._clock,
            )
            self._reflectors.append(reflector)
            group.create_task(reflector.run())


def _job(found: KubeObject) -> JobKey | None:
    return job_key_of(found.metadata)
