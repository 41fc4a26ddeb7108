"""Jobs as the caches have them: each object read once, with its pods and whatever else is its own, as a view on demand.

Listeners (`on_change`, `on_happening`) hear that something happened to a job. A job is its uid: one that is deleted and
made again under the same name is another one.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from sterna.engines.contracts.naming import JOB_LABELS
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, JobObject, Pod, ServiceObject
from sterna.engines.kubernetes.apiserver.ownership import CONFIG_LABELS, JobKey, job_key_of
from sterna.engines.kubernetes.apiserver.port import Resource
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.bodies.own_names import config_names
from sterna.engines.kubernetes.bodies.pod_templates import Templates
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.reconcile.job_view import JobStatus, JobView, NodeFacts
from sterna.engines.kubernetes.status.kept_spec import kept_read, kept_spec, kept_text
from sterna.engines.kubernetes.status.status_reading import status_read
from sterna.engines.kubernetes.world.claim_index import Claims
from sterna.engines.kubernetes.world.finished_jobs import Ended, standing_of
from sterna.engines.kubernetes.world.removed_owners import (
    is_config_left,
    is_controlled,
    is_pod_left,
    pods_left,
    services_left,
)
from sterna.engines.kubernetes.world.taken_names import TakenNames
from sterna.engines.kubernetes.world.valid_spec import ValidSpec, followed
from sterna.engines.pacing import Happening
from sterna.model.errors import SternaError
from sterna.model.ids import JobId
from sterna.model.workload import Workload

log = logging.getLogger(__name__)

_VANISHED_MAX = 256  # pods of one job that are gone and whose termination messages are not yet taken into account


class ParsedJob(Protocol):
    @property
    def workload(self) -> Workload: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...  # what it asks for and does not get


_OURS_ALONE = ("scheduling", "conditions")  # of a status: no other client has anything to say there
_UNREADABLE = "sterna.dev/unreadable"

Parse = Callable[[Mapping[str, Any]], ParsedJob]  # of an object as the API server has it; raises InvalidRequest


class KnownJob:
    """`object` is the newest there is; what was read of it is kept until its owner edits it."""

    __slots__ = (
        *("ended", "is_read", "left", "main_container", "managed_by", "object", "problem", "resource"),
        *("unhonoured", "valid", "vanished", "workload"),
    )

    def __init__(self, resource: Resource, found: JobObject, ended: Mapping[str, Ended] = MappingProxyType({})) -> None:
        self.resource = resource
        self.object = found
        self.ended = ended  # of all jobs that have ended, by uid
        self.left: msgspec.Raw | None = None  # its status as our latest look left it. None: there was none in this term
        self.is_read = False  # the rest follows from the object once it is asked for
        self.workload: Workload | None = None  # what it goes by. None: no spec of it ever made sense
        self.valid: ValidSpec | None = None  # ... and the last spec that did
        self.problem = ""
        self.unhonoured = ""
        self.managed_by: str | None = None
        self.main_container = ""
        self.vanished: dict[str, Pod] = {}  # by uid: gone, and their termination messages not yet taken into account

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def id(self) -> JobId:
        return JobId(f"{self.object.metadata.namespace}/{self.object.metadata.name}")

    @property
    def key(self) -> JobKey:
        meta = self.object.metadata
        return JobKey(meta.namespace, meta.name, meta.uid)

    @property
    def status(self) -> JobStatus:
        """What its status says; where another client wrote over it, what it said before. A job that has ended stays so.

        There is one writer of what is intended for a job, so anything else that stands there is no news but a mistake
        or an attack, and is written over (`loop/job_runner.py`).
        """
        found, left = status_of(self.object), self.left
        # Mostly it is the very same object, which costs nothing to find out.
        if left is not None and left is not self.object.status and bytes(left) != bytes(self.object.status):
            before = status_read(msgspec.json.decode(left) if bytes(left) else {})
            if any(before.body.get(key) != found.body.get(key) for key in _OURS_ALONE):
                found = replace(before, body=found.body, overwritten=True)
        if not found.recorded.finished and (ended := self.ended.get(self.uid)) is not None:
            return JobStatus(body=found.body, recorded=standing_of(ended), overwritten=True)
        return found

    @property
    def order(self) -> tuple[float, float, str]:
        """By age; of those made in the same second, which is all that Kubernetes tells, the one known longer."""
        taken_in_s = self.status.recorded.enqueued_s
        return (created_s(self.object), inf if taken_in_s is None else taken_in_s, self.uid)


class KnownJobs:
    """`nodes` is the roster's own table, which is always up to date."""

    def __init__(
        self, cache: Cache, parse: Parse, nodes: Mapping[str, NodeFacts], claims: Claims | None = None
    ) -> None:
        self.by_uid: dict[str, KnownJob] = {}
        self.on_change: Callable[[str], None] = lambda _: None  # something happened to the job of this uid
        self.on_happening: Callable[[Happening], None] = lambda _: None
        self.ended: dict[str, Ended] = {}  # by uid: jobs that are known to have ended
        self._named: dict[JobId, list[KnownJob]] = {}  # the oldest first: kinds may share a name
        self._cache = cache
        self._parse = parse
        self._nodes = nodes
        self._claims = claims or Claims()
        for resource, store in cache.jobs.items():
            store.listen(self._listener(resource))
        cache.pods.listen(self._pod_changed)
        cache.services.listen(self._part_changed)
        cache.config_maps.listen(self._part_changed)

    def __iter__(self) -> Iterator[KnownJob]:
        return iter(self.by_uid.values())

    def __len__(self) -> int:
        return len(self.by_uid)

    def named(self, job_id: JobId) -> list[KnownJob]:
        """All kinds' jobs of this name, the oldest first."""
        return self._named.get(job_id, [])

    def owner_of(self, found: Pod) -> KnownJob | None:
        """The job that it belongs to, although its owner reference may have been removed. None: none that is here."""
        key = job_key_of(found.metadata)
        return self._of_key(key) if key is not None else self._seated(found)

    def left_pods(self, job: KnownJob) -> list[Pod]:
        """Those that are surely this job's and whose owner reference was removed."""
        self._read(job)
        if job.workload is None or self._rival(job) is not None:
            return []
        return [*pods_left(self._cache.pods, job.workload, job.status.recorded)]

    def view(self, job: KnownJob) -> JobView:
        """Everything that is known of it now."""
        self._read(job)
        found, meta, uid = job.object, job.object.metadata, job.uid
        rival, status = self._rival(job), job.status
        pods, services = [*self._cache.pods.by("job", job.key)], [*self._cache.services.by("job", job.key)]
        config_map = self._config_map(job)
        unowned = frozenset[str]()
        if job.workload is not None and rival is None:
            left = self.left_pods(job)
            left_services = [*services_left(self._cache.services, job.workload, status.recorded)]
            configs = [config_map] if config_map is not None and _config_key(config_map) != job.key else []
            pods, services = pods + left, services + left_services
            unowned = frozenset(each.metadata.uid for each in (*left, *left_services, *configs))
        return JobView(
            api_version=job.resource.api_version,
            kind=job.resource.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=uid,
            generation=meta.generation,
            resource_version=meta.resource_version,
            created_s=created_s(found),
            deleting=found.terminating,
            managed_by=job.managed_by,
            workload=job.workload if rival is None else None,
            problem=job.problem if rival is None else f"metadata.name: {rival.resource.kind} {meta.name} has this name",
            kept="" if job.valid is None else job.valid.text,
            unhonoured=job.unhonoured,
            hold=self._claims.hold_of(job.key, job.workload),
            templates={} if job.valid is None else Templates(job.valid.spec, job.valid.workload),
            main_container=job.main_container,
            status=status,
            standing=status.recorded,
            pods=tuple(sorted(pods, key=lambda pod: pod.metadata.name)),
            vanished=tuple(job.vanished.values()),
            services=tuple(sorted(services, key=lambda service: service.metadata.name)),
            config_map=config_map,
            unowned=unowned,
            taken=TakenNames(self._cache, job.key),
            nodes=self._nodes,
        )

    def forget_vanished(self, job: KnownJob, pods: tuple[Pod, ...]) -> None:
        """What these said last is written down."""
        for pod in pods:
            job.vanished.pop(pod.metadata.uid, None)

    def _config_map(self, job: KnownJob) -> ConfigMapObject | None:
        """The one that the job owns, or one that is surely its own and has lost its owner reference."""
        meta = job.object.metadata
        named = (self._cache.config_maps.get(name, meta.namespace) for name in config_names(meta.name, job.uid))
        there = [found for found in named if found is not None]
        owned = next((found for found in there if _config_key(found) == job.key), None)
        if owned is not None or job.workload is None:
            return owned
        return next((found for found in there if is_config_left(found, job.workload)), None)

    def _rival(self, job: KnownJob) -> KnownJob | None:
        """An older job of another kind that has this name and lives: pods of the two would be called alike."""
        named = self._named.get(job.id, ())
        if len(named) < 2:
            return None
        for other in named:
            if other is job:
                return None
            self._read(other)
            if other.managed_by is None and not other.status.recorded.finished:
                return other
        return None

    # -- what the stores tell -----------------------------------------------------------------------------------------

    def _listener(self, resource: Resource) -> Callable[[JobObject | None, JobObject | None], None]:
        def changed(before: JobObject | None, after: JobObject | None) -> None:
            if after is None:
                assert before is not None
                self._removed(before)
            elif before is None:
                self._added(KnownJob(resource, after, self.ended))
            else:
                self._edited(self.by_uid[after.metadata.uid], after)

        return changed

    def _added(self, job: KnownJob) -> None:
        self.by_uid[job.uid] = job
        self._named.setdefault(job.id, []).append(job)
        self._put_in_order(job.id)
        self.on_change(job.uid)
        self.on_happening(Happening.JOB_ACCEPTED)

    def _edited(self, job: KnownJob, after: JobObject) -> None:
        before, job.object = job.object, after
        self._put_in_order(job.id)
        if _is_written_anew(before, after):
            job.is_read = False
            self.on_happening(Happening.PRIORITY_CHANGED)
        if after.terminating and not before.terminating:
            self._tell_of_deletion(job)
        self.on_change(job.uid)

    def _removed(self, found: JobObject) -> None:
        job = self.by_uid.pop(found.metadata.uid)
        self.ended.pop(job.uid, None)
        named = self._named[job.id]
        named.remove(job)
        if not named:
            del self._named[job.id]
        if not found.terminating:
            self._tell_of_deletion(job)
        self.on_change(job.uid)
        for other in named:
            self.on_change(other.uid)

    def _put_in_order(self, job_id: JobId) -> None:
        if len(named := self._named[job_id]) > 1:
            named.sort(key=lambda known: known.order)

    def _tell_of_deletion(self, job: KnownJob) -> None:
        standing = job.status.recorded
        held = bool(standing.seats) or bool(self._cache.pods.by("job", job.key))
        if standing.finished and not held:
            self.on_happening(Happening.FINISHED_JOB_DELETED)
        else:
            self.on_happening(Happening.RUNNING_JOB_DELETED if held else Happening.WAITING_JOB_DELETED)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        was = None if before is None else self.owner_of(before)
        job = None if after is None else self.owner_of(after)
        if was is not None and job is not was:  # it is gone, or its labels do not say any more that it is this job's
            if after is None and before is not None:
                was.vanished[before.metadata.uid] = before
                if len(was.vanished) > _VANISHED_MAX:
                    del was.vanished[next(iter(was.vanished))]
            self.on_happening(Happening.WORKERS_GONE)
            self.on_change(was.uid)
        if job is not None:
            self.on_change(job.uid)

    def _part_changed(
        self, before: ServiceObject | ConfigMapObject | None, after: ServiceObject | ConfigMapObject | None
    ) -> None:
        """Of the job that it was of as well: one whose owner reference was removed belongs to no job any more."""
        keys = [_part_key(part) for part in (before, after) if part is not None]
        for key in dict.fromkeys(keys):
            if (job := self._of_key(key)) is not None:
                self.on_change(job.uid)

    def _seated(self, pod: Pod) -> KnownJob | None:
        """The job in whose seat it is, by its labels and its node, where it names no owner."""
        meta = pod.metadata
        if is_controlled(meta):
            return None
        names = dict.fromkeys(name for key in JOB_LABELS if (name := meta.label(key)) is not None)
        jobs = [job for name in names for job in self.named(JobId(f"{meta.namespace}/{name}"))]
        return next((job for job in jobs if self._is_left(job, pod)), None)

    def _is_left(self, job: KnownJob, pod: Pod) -> bool:
        self._read(job)
        if job.workload is None or self._rival(job) is not None:
            return False
        return is_pod_left(pod, job.workload, job.status.recorded)

    def _of_key(self, key: JobKey | None) -> KnownJob | None:
        job = None if key is None else self.by_uid.get(key.uid)
        return job if job is not None and job.key == key else None

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, job: KnownJob) -> None:
        """What its owner wants, or why that makes no sense; never an error of ours for one odd object."""
        if job.is_read:
            return
        job.is_read = True
        try:
            document = _document_of(job)
            spec = document["spec"] if isinstance(document.get("spec"), dict) else {}
            policy = spec.get("runPolicy")
            managed_by = policy.get("managedBy") if isinstance(policy, dict) else None
            job.managed_by = managed_by if isinstance(managed_by, str) and not _is_ours(managed_by) else None
            try:
                job.valid = self._valid(job, document)
                job.problem = ""
            except SternaError as error:
                job.problem = str(error)
                job.valid = job.valid or self._recalled(job, document)
            job.workload = (
                None if job.valid is None else followed(job.valid, spec) if job.problem else job.valid.workload
            )
            job.main_container = "" if job.valid is None else job.valid.main_container
        except Exception:  # the boundary of one object: the others must go on
            log.exception("a job could not be read", extra={"job": job.id})
            job.managed_by = _UNREADABLE  # our mistake, not its owner's: it is left alone until it can be read

    def _valid(self, job: KnownJob, document: dict[str, Any]) -> ValidSpec:
        parsed = self._parse(document)
        workload, job.unhonoured = parsed.workload, "; ".join(parsed.warnings)
        written = kept_spec(document["spec"], document["metadata"]["labels"], document["metadata"]["annotations"])
        text = kept_text(written, known=job.status.recorded.kept)
        return ValidSpec(workload, job.object.spec, text)

    def _recalled(self, job: KnownJob, document: dict[str, Any]) -> ValidSpec | None:
        """What an operator kept before an edit that makes no sense, if that does. None: there is nothing."""
        text = job.status.recorded.kept
        if (found := kept_read(text)) is None:
            return None
        meta = {**document["metadata"], "labels": found.labels, "annotations": found.annotations}
        try:
            workload = self._parse({**document, "metadata": meta, "spec": found.spec}).workload
        except SternaError as error:
            log.warning("a spec that was kept makes no sense", extra={"job": job.id, "why": str(error)})
            return None
        return ValidSpec(workload, msgspec.Raw(msgspec.json.encode(found.spec)), text)


def _part_key(part: ServiceObject | ConfigMapObject) -> JobKey | None:
    return _config_key(part) if isinstance(part, ConfigMapObject) else job_key_of(part.metadata)


def _config_key(found: ConfigMapObject) -> JobKey | None:
    return job_key_of(found.metadata, CONFIG_LABELS)


def created_s(found: JobObject) -> float:
    return moment_s(found.metadata.creation_timestamp) or 0.0


def _is_ours(manager: str) -> bool:
    return not manager or manager.startswith("sterna.dev")


def _is_written_anew(before: JobObject, after: JobObject) -> bool:
    old, new = before.metadata, after.metadata
    return bytes(before.spec) != bytes(after.spec) or (old.labels, old.annotations) != (new.labels, new.annotations)


def _document_of(job: KnownJob) -> dict[str, Any]:
    meta = job.object.metadata
    return {
        "apiVersion": job.resource.api_version,
        "kind": job.resource.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "generation": meta.generation,
            "labels": meta.labels or {},
            "annotations": meta.annotations or {},
        },
        "spec": msgspec.json.decode(job.object.spec),
    }


def status_of(found: JobObject) -> JobStatus:
    """Which may be missing, null, or anything that was written there."""
    body = msgspec.json.decode(found.status) if bytes(found.status) else None
    return status_read(body if isinstance(body, dict) else {})
