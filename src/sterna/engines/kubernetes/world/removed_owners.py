"""Objects of a job whose owner reference was removed by hand: which of those without one are surely this job's. Pure.

A name and a label prove nothing, since every user of the namespace may write them. What says that a pod is ours is that
it is in a seat: it has the name, the labels, the slot, the incarnation and the node that the job's own status gives it.
A service has the labels of its place and the selector that goes with them. An object that another controller owns is
that controller's.
"""

from collections.abc import Iterator, Mapping

from sterna.engines.contracts.naming import labels_of, worker_name
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, Meta, Pod, ServiceObject
from sterna.engines.kubernetes.bodies.mpi_hosts import config_labels
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.reconcile.observed_pods import INCARNATION
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.model.workload import Workload


def pods_left(pods: Store[Pod], workload: Workload, standing: Standing) -> Iterator[Pod]:
    """In the seats of the job, and owned by nothing."""
    for seat in standing.seats:
        found = pods.get(worker_name(workload, *seat.worker[:2]), workload.namespace)
        if found is not None and _is_in_seat(found, workload, standing, seat):
            yield found


def is_pod_left(pod: Pod, workload: Workload, standing: Standing) -> bool:
    """Is it one of those, or was it before it went?"""
    here = pod.metadata.namespace == workload.namespace
    return here and any(
        _is_in_seat(pod, workload, standing, seat)
        for seat in standing.seats
        if worker_name(workload, *seat.worker[:2]) == pod.metadata.name
    )


def _is_in_seat(pod: Pod, workload: Workload, standing: Standing, seat: Seat) -> bool:
    if is_controlled(pod.metadata):
        return False
    in_place = pod.spec.node_name in ("", seat.worker.node)
    of_this_gang = pod.metadata.annotation(INCARNATION) == str(standing.incarnation)
    labels = labels_of(workload, *seat.worker[:2], slot=seat.slot)
    return in_place and of_this_gang and _has(pod.metadata.labels, labels)


def services_left(services: Store[ServiceObject], workload: Workload, standing: Standing) -> Iterator[ServiceObject]:
    """Of the seats of the job, and owned by nothing."""
    for seat in standing.seats:
        place = seat.worker[:2]
        found = services.get(worker_name(workload, *place), workload.namespace)
        if found is None or is_controlled(found.metadata):
            continue
        labels = labels_of(workload, *place)
        if _has(found.metadata.labels, labels) and found.spec.selector == labels:
            yield found


def is_config_left(found: ConfigMapObject, workload: Workload) -> bool:
    """Is the host list of this name the job's, and owned by nothing?"""
    return not is_controlled(found.metadata) and found.metadata.labels == config_labels(workload)


def is_controlled(meta: Meta) -> bool:
    return any(owner.controller for owner in meta.owner_references or ())


def _has(labels: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= (labels or {}).items()
