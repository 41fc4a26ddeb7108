"""What happened to jobs, from the cluster's own events: those about jobs and those about their pods, oldest first.

An event's number is its resource version. It rises with every write, also when an event happens again and only its
count goes up, so a reader that follows by number misses nothing.
"""

import re
from collections.abc import Collection, Iterable

from sterna.engines.kubernetes.apiserver.objects import KubeObject, Shape
from sterna.engines.kubernetes.apiserver.port import EVENTS, Api
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.console.finding import JOB_KINDS
from sterna.engines.shared_records import event_record
from sterna.lifecycle.job_record import Record
from sterna.model.jobs import Role

_KINDS = frozenset(resource.kind for resource in JOB_KINDS)
_POD = re.compile(rf"(?P<job>.+)-(?:{'|'.join(Role)})-[0-9]+")


class Involved(Shape, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class Source(Shape, frozen=True):
    component: str | None = None
    host: str | None = None


class EventObject(KubeObject, frozen=True):
    involved_object: Involved = Involved()
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    source: Source | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def number(self) -> int:
        version = self.metadata.resource_version
        return int(version) if version.isdecimal() else 0

    @property
    def job(self) -> str:
        """The job it is about, or may be: a pod is known by its name alone once it is gone. Empty: none of ours."""
        about = self.involved_object
        if about.kind in _KINDS:
            return f"{about.namespace}/{about.name}"
        found = _POD.fullmatch(about.name) if about.kind == "Pod" else None
        return f"{about.namespace}/{found['job']}" if found else ""


async def events_of(api: Api, *, namespace: str | None, job_id: str | None, known: Collection[str]) -> list[Record]:
    """Of one job, or of all. `known`: ids of jobs that are there, because a name alone does not make a pod ours."""
    found = (await api.listing(EVENTS, namespace=namespace, shape=EventObject)).items
    ours = {*known, *(event.job for event in found if event.involved_object.kind in _KINDS)}
    wanted = [event for event in found if event.job in ours and job_id in (None, event.job)]
    return [_record(event) for event in _in_order(wanted)]


def _in_order(found: Iterable[EventObject]) -> list[EventObject]:
    return sorted(found, key=lambda event: (event.number, event.metadata.name))


def _record(event: EventObject) -> Record:
    about = event.involved_object
    at = event.last_timestamp or event.event_time or event.first_timestamp or event.metadata.creation_timestamp
    data: Record = {} if event.count in (None, 0, 1) else {"count": event.count}
    message = event.message or ""
    if about.kind == "Pod":
        data["pod"] = about.name
        message = f"{about.name}: {message}"
    return event_record(
        event.number,
        at_s=moment_s(at),
        job=event.job,
        node=(event.source.host if event.source is not None else None) or None,
        type_=event.type or "Normal",
        reason=event.reason or "",
        message=message,
        data=data,
    )
