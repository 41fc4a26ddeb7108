"""Carrying out what a look at a job found to be done: one request to the API server each, harmless when repeated.

What the server answers goes into the stores at once, so that the next look sees what this one did.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple, assert_never

from sterna.engines.contracts.naming import JOB_LABELS
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, KubeObject, Pod, ServiceObject
from sterna.engines.kubernetes.apiserver.ownership import CONFIG_LABELS, job_key_of
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    AlreadyExists,
    Api,
    LacksRight,
    Missing,
    PatchType,
    Refused,
    Resource,
    T,
    Urgency,
    WriteConflict,
)
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.loop.effect_events import Tried, events_of_effects
from sterna.engines.kubernetes.reconcile.effects import (
    CREATIONS,
    AdoptPod,
    AdoptService,
    AskAdmission,
    BindPod,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteService,
    Effect,
    NudgePod,
    WriteConfigMap,
)
from sterna.engines.kubernetes.status.job_events import JobEvent
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.lifecycle.admission_denials import Answer
from sterna.model.errors import Conflict, SternaError

_DENIED = frozenset({403, 422})  # codes by which admission says no of a dry run


class Carried(NamedTuple):
    """What became of the effects that were tried."""

    tried: tuple[Tried, ...]

    @property
    def errors(self) -> list[SternaError]:
        return [found.error for found in self.tried if found.error is not None]

    @property
    def refused(self) -> Refused | None:
        """The first answer by which something was not made that the job needs, be it right or wrong. None: none."""
        answers = (found.error for found in self.tried if isinstance(found.effect, CREATIONS))
        return next((error for error in answers if isinstance(error, Refused)), None)

    @property
    def answer(self) -> Answer | None:
        """Whether one more pod would be let in. None: it was not asked, or the answer says nothing of it."""
        asked = next((found for found in self.tried if isinstance(found.effect, AskAdmission)), None)
        if asked is None or (asked.error is not None and not isinstance(asked.error, Refused)):
            return None
        if asked.error is None or asked.error.code not in _DENIED:  # a webhook that takes no dry run, say: a try tells
            return Answer(True)
        return None if isinstance(asked.error, LacksRight) else Answer(False, asked.error.said)

    @property
    def events(self) -> tuple[JobEvent, ...]:
        return events_of_effects(self.tried)


class Hands:
    def __init__(self, api: Api, cache: Cache) -> None:
        self._api = api
        self._cache = cache
        self._told_to_go: dict[str, float] = {}  # uid of a pod -> the grace it was given; until it is gone
        cache.pods.listen(self._pod_changed)

    async def carry_out(self, job: KnownJob, effects: Sequence[Effect]) -> "Carried":
        """In their order, those of one sort side by side. A failure keeps what comes after it from being done."""
        tried: list[Tried] = []
        for alike in _side_by_side(effects):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._try(job, effect)) for effect in alike]
            tried += [task.result() for task in tasks]
            if any(found.error is not None for found in tried):
                break  # what comes after may rely on it
        return Carried(tuple(tried))

    async def _try(self, job: KnownJob, effect: Effect) -> Tried:
        try:
            return Tried(effect, await self._do(job, effect))
        except SternaError as error:
            # A kubelet looks by itself within a minute; nothing else may wait for a nudge.
            return Tried(effect, False, None if isinstance(effect, NudgePod) else error)

    async def _do(self, job: KnownJob, effect: Effect) -> bool:
        """Says whether it was done now; False: it was so already."""
        match effect:
            case CreatePod(name, body, _):
                return await self._create(job, PODS, self._cache.pods, Pod, name, body)
            case CreateService(name, body, _):
                return await self._create(job, SERVICES, self._cache.services, ServiceObject, name, body)
            case DeletePod():
                return await self._delete_pod(job, effect)
            case AdoptPod():
                return await self._adopt(job, PODS, self._cache.pods, Pod, effect)
            case AdoptService():
                return await self._adopt(job, SERVICES, self._cache.services, ServiceObject, effect)
            case DeleteService(name, uid):
                return await self._delete(job, SERVICES, self._cache.services, name, uid)
            case WriteConfigMap():
                return await self._write_config_map(job, effect)
            case NudgePod(name, uid, annotations):
                patch = {"metadata": {"uid": uid, "annotations": annotations}}
                namespace = job.object.metadata.namespace
                self._cache.pods.put(await self._api.patch(PODS, name, patch, namespace=namespace, shape=Pod))
                return True
            case BindPod(name, uid, node):
                await self._api.bind(name, namespace=job.object.metadata.namespace, node=node, uid=uid)
                return True
            case AskAdmission(_, body):
                with suppress(AlreadyExists):  # which is found out once all else is well
                    await self._api.create(PODS, body, namespace=job.object.metadata.namespace, shape=Pod, dry_run=True)
                return True
            case DeleteJob(name, uid):
                return await self._delete(job, job.resource, self._cache.jobs[job.resource], name, uid)
        assert_never(effect)

    async def _create(
        self, job: KnownJob, resource: Resource, store: Store[T], shape: type[T], name: str, body: dict[str, object]
    ) -> bool:
        namespace = job.object.metadata.namespace
        try:
            store.put(await self._api.create(resource, body, namespace=namespace, shape=shape))
            return True
        except AlreadyExists:
            found = await self._api.get(resource, name, namespace=namespace, shape=shape, urgency=Urgency.PLACE)
            if not _is_of(found, job):
                store.put(found)  # the next look knows that its name is taken, and uses another one
                raise Conflict(f"{resource.kind} {namespace}/{name} is there and is not of this job") from None
            store.put(found)
            return False

    async def _adopt(
        self, job: KnownJob, resource: Resource, store: Store[T], shape: type[T], effect: AdoptPod | AdoptService
    ) -> bool:
        """Beside owners that it has; as it was seen, or not at all."""
        meta = {"uid": effect.uid, "resourceVersion": effect.version, "ownerReferences": [effect.owner]}
        store.put(
            await self._api.patch(
                resource,
                effect.name,
                {"metadata": meta},
                namespace=job.object.metadata.namespace,
                type=PatchType.STRATEGIC,
                shape=shape,
            )
        )
        return True

    async def _delete_pod(self, job: KnownJob, effect: DeletePod) -> bool:
        """Sent once, and again only with a shorter grace period: the watch tells when the pod is gone."""
        name, uid, grace_s, _ = effect
        patience = float("inf") if grace_s is None else float(grace_s)
        if self._told_to_go.get(uid, float("inf")) <= patience and uid in self._told_to_go:
            return False
        done = await self._delete(job, PODS, self._cache.pods, name, uid, grace_s=grace_s)
        pod = self._cache.pods.get(name, job.object.metadata.namespace)
        if pod is not None and pod.metadata.uid == uid:
            self._told_to_go[uid] = patience
        return done

    async def _delete(
        self, job: KnownJob, resource: Resource, store: Store[T], name: str, uid: str, *, grace_s: int | None = None
    ) -> bool:
        namespace = job.object.metadata.namespace
        try:
            await self._api.delete(resource, name, namespace=namespace, uid=uid, grace_s=grace_s)
            return True
        except Missing:
            pass
        except WriteConflict:  # another object has its name now, or the server was merely busy with it
            with suppress(Missing):
                there = await self._api.get(resource, name, namespace=namespace, shape=KubeObject)
                if there.metadata.uid == uid:
                    raise
        found = store.get(name, namespace)
        if found is not None and found.metadata.uid == uid:
            store.forget(found)
        return False

    async def _write_config_map(self, job: KnownJob, effect: WriteConfigMap) -> bool:
        """Says whether it is a new one."""
        namespace, store = job.object.metadata.namespace, self._cache.config_maps
        if not effect.exists and await self._create(job, CONFIG_MAPS, store, ConfigMapObject, effect.name, effect.body):
            return True
        known = store.get(effect.name, namespace)  # before: what the answer says is not about one that came since
        try:
            store.put(
                await self._api.replace(
                    CONFIG_MAPS, effect.name, effect.body, namespace=namespace, shape=ConfigMapObject
                )
            )
        except Missing:
            if known is not None:
                store.forget(known)
        return False

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None and before is not None:
            self._told_to_go.pop(before.metadata.uid, None)


def _is_of(found: KubeObject, job: KnownJob) -> bool:
    labels = CONFIG_LABELS if isinstance(found, ConfigMapObject) else JOB_LABELS
    return job_key_of(found.metadata, labels) == job.key


def _side_by_side(effects: Sequence[Effect]) -> Iterator[list[Effect]]:
    """Neighbours of one sort. What is created may be created in any order."""
    for _, alike in groupby(effects, key=lambda effect: _SORTS.get(type(effect), type(effect))):
        yield list(alike)


_SORTS: dict[type, type] = {CreateService: CreatePod, DeleteService: DeletePod}
