"""Jobs from a manifest onto the API server: all of its documents or none of them."""

from collections.abc import Iterable
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Body, JobObject
from sterna.engines.kubernetes.apiserver.port import MPI_JOBS_V2, AlreadyExists, Api, Missing, Resource
from sterna.engines.kubernetes.console.finding import JOB_KINDS, NOT_INSTALLED, Finder, FoundJob, Submitted
from sterna.model.errors import Conflict, EngineRefused, NotFound, SternaError

_RESOURCES = {(resource.api_version, resource.kind): resource for resource in (*JOB_KINDS, MPI_JOBS_V2)}


class Made(NamedTuple):
    job: FoundJob
    warnings: tuple[str, ...]


class Submitting:
    def __init__(self, api: Api, finder: Finder, *, namespace: str) -> None:
        self._api = api
        self._finder = finder
        self._namespace = namespace  # of documents that name none

    async def submit(self, documents: Iterable[Submitted], *, dry_run: bool) -> list[Made]:
        orders = [self._order(document) for document in documents]
        for order in orders:
            await self._require_free(order, orders)
        if len(orders) > 1 or dry_run:  # the API server checks all before the first one is made
            tried = [await self._create(order, dry_run=True) for order in orders]
            if dry_run:
                return tried
        made: list[Made] = []
        try:
            for order in orders:
                made += [await self._create(order, dry_run=False)]
        except SternaError:
            await self._take_back(made)
            raise
        return made

    def _order(self, document: Submitted) -> "_Order":
        body, workload = document.body, document.workload
        metadata = {**(body.get("metadata") or {}), "namespace": self._namespace_of(body)}
        if workload.name.endswith("-"):
            metadata["generateName"] = workload.name
        resource = _RESOURCES[workload.api_version, workload.kind]
        warnings = document.warnings
        if workload.run_policy.managed_by is not None:
            left = f"runPolicy.managedBy names {workload.run_policy.managed_by}, so Sterna leaves it alone"
            warnings = (*warnings, left)
        return _Order(resource, {**body, "metadata": metadata}, warnings)

    def _namespace_of(self, body: Body) -> str:
        return str((body.get("metadata") or {}).get("namespace") or self._namespace)

    async def _require_free(self, order: "_Order", orders: list["_Order"]) -> None:
        """Pods are called after their job, whatever its kind: two kinds must not share a name either."""
        if not order.name:
            return
        if sum(other.id == order.id for other in orders) > 1:
            raise Conflict(f"job {order.id} stands twice in the manifest")
        found, _ = await self._finder.named(order.namespace, order.name)
        for job in found:
            if job.standing.finished:
                state = job.standing.phase.value.lower()
                raise Conflict(f"job {job.id} exists and has {state}: delete it first, or choose another name")
            kind = "" if job.resource.kind == order.resource.kind else f", as a {job.resource.kind}"
            raise Conflict(f"job {job.id} exists already{kind}")

    async def _create(self, order: "_Order", *, dry_run: bool) -> Made:
        try:
            found = await self._api.create(
                order.resource, order.body, namespace=order.namespace, shape=JobObject, dry_run=dry_run
            )
        except AlreadyExists:
            raise Conflict(f"job {order.id} exists already") from None
        except Missing:
            if await self._api.serves(order.resource):
                raise NotFound("namespace", order.namespace) from None
            raise EngineRefused(f"{order.resource.kind} of {order.resource.api_version}: {NOT_INSTALLED}") from None
        return Made(self._finder.read(order.resource, found), order.warnings)

    async def _take_back(self, made: list[Made]) -> None:
        for one in made:
            meta = one.job.object.metadata
            await self._api.delete(one.job.resource, meta.name, namespace=meta.namespace, uid=meta.uid)


class _Order(NamedTuple):
    resource: Resource
    body: Body
    warnings: tuple[str, ...]

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Empty: the API server generates one."""
        return str(self.body["metadata"].get("name") or "")

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name or self.body['metadata'].get('generateName', '')}"
