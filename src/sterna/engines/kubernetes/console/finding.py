"""Jobs as they are found on the API server: whichever of the kinds they are of, with their status read and their pods.

A user may see less than all of it. Kinds that the cluster does not know are passed over; what the user may not see is
an error only if the answer depends on it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Body, JobObject, Pod
from sterna.engines.kubernetes.apiserver.ownership import JobKey, job_key_of
from sterna.engines.kubernetes.apiserver.port import (
    ELASTIC_JOBS,
    MPI_JOBS,
    PODS,
    PYTORCH_JOBS,
    TF_JOBS,
    Api,
    Missing,
    Refused,
    Resource,
)
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.reconcile.observed_pods import MAIN_CONTAINERS, Seen
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.standing_codec import standing_read
from sterna.lifecycle.counted_requests import counted_spec
from sterna.model.errors import Conflict, EngineRefused, InvalidRequest, NotFound
from sterna.model.jobs import JobSpec
from sterna.model.workload import RestartPolicy, Workload

JOB_KINDS = (TF_JOBS, PYTORCH_JOBS, MPI_JOBS, ELASTIC_JOBS)
NOT_INSTALLED = (
    "the cluster does not know the kinds of job that Sterna runs: is it installed there? See docs/install.md"
)

Parse = Callable[[Mapping[str, Any]], Workload]  # of an object as the API server has it; raises InvalidRequest

_OURS = "sterna.dev"  # managedBy of jobs that are ours begins so
_JOB_NAMES = {"TFJob": "tf-job-name", "ElasticJob": "sterna.dev/job-name"}  # labels of pods


class Submitted(NamedTuple):
    """One document of a manifest."""

    body: Body  # as it is sent
    workload: Workload  # what it means
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundJob:
    resource: Resource
    object: JobObject
    workload: Workload | None  # None: its spec makes no sense
    problem: str = ""  # why it does not

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def created_s(self) -> float:
        return moment_s(self.object.metadata.creation_timestamp) or 0.0

    @cached_property
    def document(self) -> Body:
        return document_of(self.resource, self.object)

    @cached_property
    def status(self) -> Body:
        found = msgspec.json.decode(self.object.status) if bytes(self.object.status) else None
        return found if isinstance(found, dict) else {}

    @property
    def standing(self) -> Standing:
        return self._recorded[0]

    @property
    def note(self) -> str:
        """What is wrong with the text of its standing. Empty: nothing."""
        return self._recorded[1]

    @cached_property
    def _recorded(self) -> tuple[Standing, str]:
        return standing_read(self.status.get("scheduling"))

    @property
    def shown(self) -> tuple[str, str]:
        """Reason and message as the status shows them: of what is most pressing, which need not be the decision's."""
        scheduling = self.status.get("scheduling")
        found = scheduling if isinstance(scheduling, dict) else {}
        return str(found.get("reason") or ""), str(found.get("message") or "")

    @property
    def looked_at(self) -> bool:
        """Has an operator ever looked at it?"""
        return bool(self.status.get("scheduling"))

    @property
    def suspended(self) -> bool:
        policy = self.document["spec"].get("runPolicy")
        return isinstance(policy, dict) and policy.get("suspend") is True

    @property
    def managed_by(self) -> str:
        """Name of another controller that manages it. Empty: Sterna does."""
        policy = self.document["spec"].get("runPolicy")
        name = policy.get("managedBy") if isinstance(policy, dict) else None
        return name if isinstance(name, str) and name and not name.startswith(_OURS) else ""

    @property
    def spec(self) -> JobSpec | None:
        """With what the operator counts its workers for."""
        if self.workload is None:
            return None
        return counted_spec(self.workload.job_spec(submitted_s=self.created_s), self.standing.counted)

    def seen(self, pod: Pod) -> Seen:
        """A pod of this job."""
        place = None if self.workload is None else place_of(self.workload, pod.metadata.name)
        policy = RestartPolicy.NEVER
        if self.workload is not None and place is not None:
            policy = self.workload.template(place[0]).restart_policy
        main = str(self.document["spec"].get("mainContainer") or MAIN_CONTAINERS.get(self.resource.kind, ""))
        return Seen(pod, place, main, policy)


def document_of(resource: Resource, found: JobObject) -> Body:
    """The object as parsers take it."""
    meta = found.metadata
    spec = msgspec.json.decode(found.spec) if bytes(found.spec) else None
    metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "generation": meta.generation}
    more = {"labels": meta.labels, "annotations": meta.annotations}
    return {
        "apiVersion": found.api_version or resource.api_version,
        "kind": resource.kind,
        "metadata": {**metadata, **{key: value for key, value in more.items() if value}},
        "spec": spec if isinstance(spec, dict) else {},
    }


class Finder:
    def __init__(self, api: Api, parse: Parse) -> None:
        self._api = api
        self._parse = parse

    async def jobs(self, namespace: str | None) -> list[FoundJob]:
        """By namespace and name. None: of all namespaces, which not every user may see."""
        listed = await asyncio.gather(*(self._listed(resource, namespace) for resource in JOB_KINDS))
        if all(found is None for found in listed):
            raise EngineRefused(NOT_INSTALLED)
        jobs = [
            self.read(resource, one) for resource, found in zip(JOB_KINDS, listed, strict=True) for one in found or ()
        ]
        return sorted(jobs, key=lambda job: (job.namespace, job.name, job.resource.kind))

    async def job(self, job_id: str) -> FoundJob:
        """`NotFound`, or `Conflict` where jobs of two kinds share the name."""
        namespace, _, name = job_id.partition("/")
        found, refused = await self.named(namespace, name)
        if len(found) > 1:
            kinds = " and a ".join(job.resource.kind for job in found)
            raise Conflict(f"there are a {kinds} called {job_id}; `kubectl` can tell them apart")
        if not found:
            raise refused or NotFound("job", job_id)
        return found[0]

    async def named(self, namespace: str, name: str) -> tuple[list[FoundJob], Refused | None]:
        """Whatever kinds have a job of this name, and why one of them could not be looked at."""
        answers = await asyncio.gather(*(self._got(resource, namespace, name) for resource in JOB_KINDS))
        pairs = zip(JOB_KINDS, answers, strict=True)
        jobs = [self.read(resource, one) for resource, one in pairs if isinstance(one, JobObject)]
        return jobs, next((one for one in answers if isinstance(one, Refused)), None)

    async def pods(self, job: FoundJob) -> list[Pod]:
        """The oldest first."""
        label = _JOB_NAMES.get(job.resource.kind, "training.kubeflow.org/job-name")
        listing = await self._api.listing(PODS, namespace=job.namespace, labels=f"{label}={job.name}", shape=Pod)
        key = JobKey(job.namespace, job.name, job.object.metadata.uid)
        own = [pod for pod in listing.items if job_key_of(pod.metadata) == key]
        return sorted(own, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))

    def read(self, resource: Resource, found: JobObject) -> FoundJob:
        try:
            return FoundJob(resource, found, self._parse(document_of(resource, found)))
        except InvalidRequest as error:
            return FoundJob(resource, found, None, str(error))

    async def _listed(self, resource: Resource, namespace: str | None) -> list[JobObject] | None:
        """None: there is no such kind."""
        try:
            return (await self._api.listing(resource, namespace=namespace, shape=JobObject)).items
        except Missing:
            return None

    async def _got(self, resource: Resource, namespace: str, name: str) -> JobObject | Refused | None:
        try:
            return await self._api.get(resource, name, namespace=namespace, shape=JobObject)
        except Missing:
            return None
        except Refused as error:
            return error
