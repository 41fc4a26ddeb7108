"""What a pod of the cluster takes of its node, as kube-scheduler counts it. Pure: one object in, one value out.

Beside what its spec asks for, that is what its node has given a container that is being resized in place. Limits stand
in for missing requests; the API server has filled those in already, in whatever it admitted itself.
"""

from collections.abc import Iterable, Mapping

from sterna.engines.kubernetes.apiserver.objects import Amounts, Container, ContainerStatus, Pod
from sterna.model.pod_requests import POD_LEVEL, InitContainer, PodLevel, larger, pod_request
from sterna.model.quantities import Quantity, effective_request
from sterna.model.resources import Resources

_RESIZE_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"
_NO_AMOUNTS = Amounts()


def request_of_pod(pod: Pod) -> Resources:
    """In each resource the most that is ever asked for at a time. `InvalidRequest`: something is no amount."""
    spec, status = pod.spec, pod.status
    infeasible = _resize_is_infeasible(pod)
    given = _by_name(status.container_statuses) | _by_name(status.init_container_statuses)
    containers = [_taken(container, given.get(container.name), infeasible) for container in spec.containers]
    init_containers = []
    for container in spec.init_containers or ():
        stays = container.restart_policy == "Always"
        found = given.get(container.name) if stays else None  # others are not resized
        init_containers.append(InitContainer(_taken(container, found, infeasible), stays))
    return pod_request(
        containers,
        init_containers,
        as_a_whole=_as_a_whole(pod, infeasible),
        overhead=effective_request(spec.overhead or {}, {}, field="overhead"),
    )


def resize_of(pod: Pod) -> object:
    """What of its status `request_of_pod` depends on, to be compared."""
    status = pod.status
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    given = tuple((found.name, found.resources, found.allocated_resources) for found in statuses)
    return (given, status.resources, status.allocated_resources, _resize_is_infeasible(pod))


def _taken(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    amounts = container.resources or _NO_AMOUNTS
    asked = effective_request(amounts.requests or {}, amounts.limits or {}, field=f"container {container.name}")
    if status is None or status.resources is None:
        return asked
    given = larger(_read(status.resources.requests), _read(status.allocated_resources))
    return given if infeasible else larger(asked, given)


def _as_a_whole(pod: Pod, infeasible: bool) -> PodLevel | None:
    amounts, given = pod.spec.resources, pod.status.resources
    if amounts is None:
        return None
    requests: Mapping[str, Quantity] = amounts.requests or {}
    if given is not None:
        held = larger(_read(given.requests), _read(pod.status.allocated_resources))
        asked = _read({name: requests[name] for name in POD_LEVEL if name in requests})
        now = held if infeasible else larger(asked, held)
        shown: dict[str, Quantity] = {"cpu": f"{now.cpu_milli}m", "memory": now.memory_bytes}
        requests = {name: shown[name] for name in POD_LEVEL if name in requests}
    return PodLevel(requests, amounts.limits or {})


def _read(amounts: Mapping[str, Quantity] | None) -> Resources:
    return effective_request(amounts or {}, {})


def _by_name(statuses: Iterable[ContainerStatus] | None) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses or () if status.resources is not None}


def _resize_is_infeasible(pod: Pod) -> bool:
    """The node will never grant what the spec asks for now: what it has granted before is what counts."""
    pending = next((found for found in pod.status.conditions or () if found.type == _RESIZE_PENDING), None)
    return pending is not None and pending.reason == _INFEASIBLE
