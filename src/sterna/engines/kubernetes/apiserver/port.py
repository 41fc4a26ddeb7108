"""The door to the API server: what this engine asks of a cluster, as a protocol, with the errors an answer may be.

`client/` implements it over HTTP. Tests wrap it: a wrapper that raises before or after the n-th write is how the engine
is killed at every point of a day. Every call has a deadline of its own; none retries a write that may have happened
unless the write is harmless when repeated.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sterna.engines.kubernetes.apiserver.objects import Body, KubeObject
from sterna.model.errors import Conflict, EngineRefused, EngineUnavailable, NotFound, StaleView

T = TypeVar("T", bound=KubeObject)


class Resource(NamedTuple):
    """A kind as URLs name it."""

    group: str  # empty: the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
TF_JOBS = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MPI_JOBS = Resource("kubeflow.org", "v1", "mpijobs", "MPIJob")
MPI_JOBS_V2 = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
ELASTIC_JOBS = Resource("sterna.dev", "v1alpha1", "elasticjobs", "ElasticJob")
MIGRATIONS = Resource("sterna.dev", "v1alpha1", "migrations", "Migration")
SHARE_PODS = Resource("kubeshare.nthu", "v1", "sharepods", "SharePod")  # KubeShare's


class Urgency(IntEnum):
    """When requests must wait for each other, lower ones go first: binds must not queue behind reports."""

    LEASE = 0
    PLACE = 1  # pods created, bound and deleted, and the intention that stands behind them
    READ = 2
    REPORT = 3  # status that only people read
    EVENT = 4


class PatchType(StrEnum):
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"  # lists are merged by key; for the server's own kinds only


class Gone(StaleView):
    """410: what was asked for lies too far back. List again."""


class WriteConflict(StaleView):
    """409: another writer was first."""


class NotLeader(StaleView):
    """Our own refusal, before anything was sent: the lease that allows this process to write is not valid any more."""


class AlreadyExists(Conflict):
    """409 on a create."""


class Refused(EngineRefused):
    """403, 422 and their like: asking again would not help. `code` and `reason` are the API server's."""

    def __init__(self, message: str, *, code: int, reason: str = "", said: str = "") -> None:
        self.code = code
        self.reason = reason
        self.said = said or message  # the server's words alone, without what was asked
        super().__init__(message)


class LacksRight(Refused):
    """401, or 403 of the authorizer: this user may not ask for it, whatever the object is."""


class Throttled(EngineUnavailable):
    """429: not now."""


class TooOften(Throttled):
    """Our own refusal, before anything was sent: this object was written so often that its fuse has blown."""


class Unreachable(EngineUnavailable):
    """The API server did not answer, answered 5xx, or cut the answer short. A write may or may not have happened."""


Missing = NotFound  # 404


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(NamedTuple, Generic[T]):
    type: EventType
    object: T  # of a bookmark nothing but its resource version is set


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T]
    resource_version: str  # where a watch goes on from


class Api(Protocol):
    """One cluster, as one user. `namespace` None: the resource has none, or all of them are meant."""

    def guarded(self, gate: Callable[[], None]) -> "Api":
        """The same, but `gate` is asked right before every write is sent, and what it raises is raised."""
        ...

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        shape: type[T],
        urgency: Urgency = Urgency.READ,
    ) -> T: ...

    async def listing(
        self, resource: Resource, *, namespace: str | None = None, labels: str = "", name: str = "", shape: type[T]
    ) -> Listing[T]:
        """All of it, page by page. `name`: only the one of this name, which needs no right to any other."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        name: str = "",
        shape: type[T],
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Ends when the server ends it; `Gone` when it must be listed again. To leave early, close it (`aclosing`)."""
        ...

    async def create(
        self,
        resource: Resource,
        body: Body,
        *,
        namespace: str | None = None,
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
        dry_run: bool = False,  # everything is checked and nothing is made
    ) -> T: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Body | list[Any],
        *,
        namespace: str | None = None,
        subresource: str = "",  # "status", "scale"
        type: PatchType = PatchType.MERGE,  # noqa: A002
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
    ) -> T:
        """With `metadata.resourceVersion` in the body it is `WriteConflict` if it was written since."""
        ...

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str = "",
        shape: type[T],
        urgency: Urgency = Urgency.PLACE,
    ) -> T: ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,  # `WriteConflict` if another object has the name by now
        grace_s: int | None = None,  # None: what the object itself says
        urgency: Urgency = Urgency.PLACE,
    ) -> None: ...

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        """`WriteConflict` if it has a node. `uid` is sent along; servers as old as 1.20 do not look at it."""
        ...

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Pieces as they come, not lines. To leave early, close it (`aclosing`)."""
        ...

    async def version(self) -> Mapping[str, Any]:
        """What /version says."""
        ...

    async def serves(self, resource: Resource) -> bool:
        """Does the server know this kind? Asked at the start, of kinds that a cluster may not have."""
        ...
