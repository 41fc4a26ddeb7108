"""Reads the claims that jobs mount: at once when a job asks for one, and again later, for as long as jobs have it.

A claim that cannot be used yet is read every few seconds, since a job waits for it; one that is bound hardly changes.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from sterna.engines.kubernetes.apiserver.port import (
    CLAIMS,
    STORAGE_CLASSES,
    VOLUMES,
    Api,
    Missing,
    Refused,
    Resource,
    T,
)
from sterna.engines.kubernetes.apiserver.volume_objects import ClaimObject, StorageClassObject, VolumeObject
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.world.claim_index import ClaimKey, Claims
from sterna.engines.kubernetes.world.claim_states import claim_state, class_name, is_bound
from sterna.engines.kubernetes.world.job_index import KnownJobs, status_of
from sterna.engines.pacing import Happening
from sterna.lifecycle.held_back import ClaimState
from sterna.model.errors import SternaError

log = logging.getLogger(__name__)

SOON_S = 5.0  # of a claim that jobs wait for
SELDOM_S = 300.0


class ClaimReader:
    """`changed` is told the uid of every job that a claim means something else for than before."""

    def __init__(
        self,
        api: Api,
        claims: Claims,
        jobs: KnownJobs,
        timeline: Timeline,
        *,
        changed: Callable[[str], None],
        notice: Callable[[Happening], None],
    ) -> None:
        self._api = api
        self._claims = claims
        self._jobs = jobs
        self._timeline = timeline
        self._changed = changed
        self._notice = notice
        self._due: dict[ClaimKey, float] = {}  # when to read it again
        self._work = asyncio.Event()
        claims.on_wanted = self._work.set

    @property
    def at_rest(self) -> bool:
        return not self._claims.unread

    async def run(self) -> None:
        """Until the term ends."""
        self._due.clear()
        self._claims.states.clear()  # what was read in an earlier term may be old
        while True:
            self._work.clear()
            now_s = self._timeline.now()
            fresh = [key for key in self._claims.unread if key not in self._due]
            for key in (*fresh, *[key for key, at_s in self._due.items() if at_s <= now_s]):
                await self._look_at(key)
            await wait_for(self._work, min(self._due.values(), default=math.inf) - self._timeline.now())

    async def _look_at(self, key: ClaimKey) -> None:
        self._due.pop(key, None)
        if not any(self._is_used_by(uid) for uid in self._claims.users.get(key, ())):
            self._claims.forget(key)
            return
        state = self._claims.states.get(key)
        try:
            state = await self._read(key)
        except Refused as error:
            state = ClaimState(key.name, f"cannot be read: {error}")
        except SternaError as error:
            log.info("claim not read", extra={"claim": "/".join(key), "why": str(error)})
        self._due[key] = self._timeline.now() + (SOON_S if state is None or state.problem else SELDOM_S)
        if state is not None and state != self._claims.states.get(key):
            self._claims.states[key] = state
            for uid in sorted(self._claims.users.get(key, ())):
                self._changed(uid)
            self._notice(Happening.NODE_CHANGED)

    async def _read(self, key: ClaimKey) -> ClaimState:
        claim = await self._found(CLAIMS, key.name, ClaimObject, namespace=key.namespace)
        volume: VolumeObject | None = None
        storage: StorageClassObject | None = None
        if claim is not None and is_bound(claim):
            volume = await self._found(VOLUMES, claim.spec.volume_name, VolumeObject)
        elif claim is not None and class_name(claim):
            storage = await self._found(STORAGE_CLASSES, class_name(claim), StorageClassObject)
        return claim_state(key.name, claim, volume, storage)

    async def _found(self, resource: Resource, name: str, shape: type[T], *, namespace: str | None = None) -> T | None:
        try:
            return await self._api.get(resource, name, namespace=namespace, shape=shape)
        except Missing:
            return None

    def _is_used_by(self, uid: str) -> bool:
        job = self._jobs.by_uid.get(uid)
        return job is not None and not status_of(job.object).recorded.finished
