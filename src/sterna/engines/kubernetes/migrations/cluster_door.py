"""What the door (`engines/door`) asks of a cluster: pods by name, moves as Migration objects, limits of containers.

A wish to move a pod becomes a Migration named after the pod's uid, so two wishes are one object whichever caller asks
and however often this process is killed; it belongs to the job and goes with it. One that was refused makes room for
the next wish, since the pod is still where it was. Only a leader takes wishes and reports; every replica shows the
cluster.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sterna.engines.door.household import FoundPod, Taken
from sterna.engines.kubernetes.apiserver.objects import MigrationObject, Pod
from sterna.engines.kubernetes.apiserver.port import MIGRATIONS, AlreadyExists, Api, Missing, WriteConflict
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.migrations.migration_status import key_of, phase_of
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.progress.report_intake import Reporting
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.engines.kubernetes.world.node_objects import takes_room
from sterna.engines.kubernetes.world.world import World
from sterna.lifecycle.changes import has_moved
from sterna.lifecycle.gang_roles import Place
from sterna.model.errors import EngineUnavailable, InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.migrations import MIGRATION_ENDED, MigrationPhase
from sterna.model.quantities import effective_request
from sterna.model.resources import NOTHING, Resources
from sterna.model.snapshot import Snapshot
from sterna.protocol.reports import Batch
from sterna.protocol.tokens import TokenOwner

JOB_UID, WORKER = "sterna.dev/job-uid", "sterna.dev/worker"  # labels of Migrations that the door made
LIMITS_S = 2.0  # sums over all pods are made at most this often: there may be a monitor on each of 500 nodes

_STEM_MAX = 200  # characters of a pod's name that its Migration is called by


class Office(NamedTuple):
    """How this replica stands."""

    leads: bool
    leader: str  # the name of the leading replica, as last seen. Empty: none
    instance: str  # of its term: another one forgets what was reported before


class Reception:
    """Implements `Household`."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        world: World,
        timeline: Timeline,
        reporting: Reporting,
        *,
        look: Callable[[], Snapshot],
        office: Callable[[], Office],
    ) -> None:
        self._api = api
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._reporting = reporting
        self._look = look
        self._office = office
        self._limits: tuple[float, dict[NodeId, Resources]] | None = None

    @property
    def instance(self) -> str:
        return self._office().instance

    def now_s(self) -> float:
        return self._timeline.now()

    def absence(self) -> str:
        office = self._office()
        if office.leads:
            return ""
        who = f"{office.leader} leads" if office.leader else "no operator leads yet"
        return f"this replica does not lead: {who}; ask again, and another one may answer"

    def snapshot(self) -> Snapshot:
        if not self._cache.is_synced:
            raise EngineUnavailable("the cluster is not known yet", retry_after_s=1.0)
        return self._look()

    def take_reports(self, batch: Batch, *, only_here: bool = False) -> Taken:
        return self._reporting.take(batch, only_here=only_here)

    def tenants(self, node: str) -> Iterable[TokenOwner]:
        owners = map(self._world.jobs.owner_of, self._cache.pods.by("node", node))
        return [TokenOwner(*key) for key in sorted({job.key for job in owners if job is not None})]

    def follow(self, node: str) -> Mapping[str, str]:
        return self._reporting.follow(node)

    def limits(self) -> Mapping[NodeId, Resources]:
        now_s = self._timeline.now()
        if self._limits is None or not 0 <= now_s - self._limits[0] < LIMITS_S:
            sums: defaultdict[NodeId, Resources] = defaultdict(lambda: NOTHING)
            for pod in filter(takes_room, self._cache.pods):
                node = NodeId(pod.spec.node_name)
                sums[node] = sums[node].plus(_limits_of(pod))
            self._limits = (now_s, dict(sums))
        return self._limits[1]

    # -- pods ---------------------------------------------------------------------------------------------------------

    def find(self, pod: str, *, namespace: str | None) -> list[FoundPod]:
        if namespace is not None:
            namespaces: Iterable[str] = (namespace,)
        else:
            namespaces = sorted({job.object.metadata.namespace for job in self._world.jobs})
        pods = (self._cache.pods.get(pod, where) for where in namespaces)
        return [known for known in map(self._known, filter(None, pods)) if known is not None]

    def _known(self, pod: Pod) -> FoundPod | None:
        """None: it belongs to no job that we look after."""
        job = self._world.jobs.owner_of(pod)
        workload = None if job is None else self._world.jobs.view(job).workload
        place = None if workload is None else place_of(workload, pod.metadata.name)
        if job is None or place is None:
            return None
        standing = job.status.recorded
        bare = Worker(*place, NodeId(pod.spec.node_name))
        seats = [worker for worker in standing.assigned if worker[:3] == bare[:3]]  # with its cards, where it has any
        moves = _Moves(job, standing, place, self._cache.migrations)
        return FoundPod(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=pod.metadata.uid,
            job_id=job.id,
            worker=seats[0] if seats else bare,
            finished=standing.finished or pod.over or job.object.terminating,
            moves=moves.count,
            moved_s=moves.latest_s,
            asked=moves.is_open,
        )

    # -- moves --------------------------------------------------------------------------------------------------------

    async def ask(self, pod: FoundPod, to: NodeId) -> bool:
        job = next((job for job in self._world.jobs.named(pod.job_id) if self._holds(job, pod)), None)
        if job is None:
            return False  # it has gone since it was found
        name = migration_name(pod)
        if await self._make(job, pod, name, to):
            return True
        known = self._cache.migrations.get(name, pod.namespace)
        if known is None or phase_of(known) not in MIGRATION_ENDED:
            return False
        with suppress(Missing, WriteConflict):  # another writer deleted it
            await self._api.delete(MIGRATIONS, name, namespace=pod.namespace, uid=known.metadata.uid)
        self._cache.migrations.forget(known)
        return await self._make(job, pod, name, to)

    def _holds(self, job: KnownJob, pod: FoundPod) -> bool:
        found = self._cache.pods.get(pod.name, pod.namespace)
        return found is not None and found.metadata.uid == pod.uid and self._world.jobs.owner_of(found) is job

    async def _make(self, job: KnownJob, pod: FoundPod, name: str, to: NodeId) -> bool:
        """False: there is one."""
        meta = job.object.metadata
        owner = {"apiVersion": job.resource.api_version, "kind": job.resource.kind, "name": meta.name, "uid": meta.uid}
        body: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": pod.namespace,
                "labels": {JOB_UID: job.uid, WORKER: str(pod.worker.ordinal)},
                "ownerReferences": [owner],
            },
            "spec": {
                "job": meta.name,
                "kind": job.resource.kind,
                "worker": pod.worker.ordinal,
                "to": to,
                "reason": f"asked for by POST /migrate: pod {pod.name} should leave {pod.worker.node}",
            },
        }
        try:
            made = await self._api.create(MIGRATIONS, body, namespace=pod.namespace, shape=MigrationObject)
        except AlreadyExists:
            return False
        self._cache.migrations.put(made)
        return True


class _Moves:
    """What has become of one worker's lineage: moves that are over, under way, and asked for.

    A job's own history is short, and objects may be deleted by their owners; the two together forget neither.
    """

    def __init__(self, job: KnownJob, standing: Standing, place: Place, migrations: Iterable[MigrationObject]) -> None:
        objects = [found for found in migrations if _is_about(found, job, place)]
        pasts = [past for past in standing.history if has_moved(past, place)]
        change = standing.change if standing.change is not None and has_moved(standing.change, place) else None
        told = {past.migration for past in pasts} | ({change.migration} if change is not None else set())
        done = [
            found
            for found in objects
            if found.metadata.label(JOB_UID) == job.uid
            and phase_of(found) in (MigrationPhase.SUCCEEDED, MigrationPhase.MOVING)
            and key_of(found) not in told
        ]
        self.is_open = change is not None or any(phase_of(found) not in MIGRATION_ENDED for found in objects)
        self.count = len(pasts) + len(done) + (change is not None)
        asked = (moment_s(found.metadata.creation_timestamp) for found in objects)
        moments = [past.ended_s for past in pasts] + [moment for moment in asked if moment is not None]
        self.latest_s = max(moments, default=None)


def migration_name(pod: FoundPod) -> str:
    """The same for the same life of a pod."""
    digest = hashlib.sha256(f"{pod.job_id}/{pod.uid}".encode()).hexdigest()[:10]
    return f"{pod.name[:_STEM_MAX].rstrip('-.')}-{digest}"


def _is_about(found: MigrationObject, job: KnownJob, place: Place) -> bool:
    """Is it this worker that it would move, alone or with all others?"""
    meta, mine = found.metadata, job.object.metadata
    if meta.namespace != mine.namespace or found.terminating:
        return False
    spec = msgspec.json.decode(found.spec) if bytes(found.spec) else None
    if not isinstance(spec, dict) or spec.get("job") != mine.name or spec.get("kind") not in (None, job.resource.kind):
        return False
    made_for = meta.label(JOB_UID)
    if made_for not in (None, job.uid):
        return False  # of another job that had this name
    return spec.get("worker") in (None, place[1]) and place[0] is Role.WORKER


def _limits_of(pod: Pod) -> Resources:
    """Of its containers together; what is no amount counts nothing."""
    total = NOTHING
    for container in pod.spec.containers:
        limits = container.resources.limits if container.resources is not None else None
        try:
            total = total.plus(effective_request({}, limits or {}))
        except InvalidRequest:
            continue
    return total
