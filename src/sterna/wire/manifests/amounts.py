"""What one replica takes, all parts of its pod together, and what the container that trains may not exceed.

Counted as a cluster counts pods (`model/pod_requests.py`); a container without a request takes its limit. What the
admission of a cluster adds is not known here: the operator asks for it. `nvidia.com/gpu` may be a fraction of one card,
and so may KubeShare's annotations.
"""

from sterna.model.errors import InvalidRequest
from sterna.model.pod_requests import InitContainer, PodLevel, pod_request
from sterna.model.quantities import AMOUNT_MAX, Quantity, effective_request, exact, gpu_milli, memory_bytes
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Resources
from sterna.wire.fields import COUNT_MAX
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import RESOURCES, PodAt

KUBESHARE = ("kubeshare/gpu_request", "kubeshare/gpu_limit", "kubeshare/gpu_mem")
_SHARES = f"the annotations {', '.join(KUBESHARE)} of the template"
_OWN_WORDS = ("gpu", "gpuMemory")  # resources that Kubernetes has no name for
_CARDS = ("nvidia.com/gpu", "amd.com/gpu")
_MAX = AMOUNT_MAX // COUNT_MAX  # of one replica, so that no sum over a job overflows; some 90 TB of memory


def amounts_of(pod: PodAt, main: int, findings: Findings) -> tuple[Resources, Resources]:
    """The request of one replica, and the limit of its main container."""
    spec, containers, limit = pod.template.spec, [], NOTHING
    for index, container in enumerate(spec.containers):
        wanted, most = container.resources.requests, container.resources.limits
        containers.append(_taken(wanted, most, (*pod.container_path(index), "resources"), findings))
        limit = effective_request({}, _small(most)) if index == main else limit
    init_containers = []
    for index, found in enumerate(spec.init_containers):
        path = (*pod.path, "initContainers", index, "resources")
        taken = _taken(found.resources.requests, found.resources.limits, path, findings)
        init_containers.append(InitContainer(taken, stays=found.restart_policy == "Always"))
    level = spec.resources
    _check_each(level.requests, level.limits, (*pod.path, "resources"), findings)
    _check(spec.overhead, (*pod.path, "overhead"), findings)
    request = pod_request(
        containers,
        init_containers,
        as_a_whole=PodLevel(_small(level.requests), _small(level.limits)),
        overhead=effective_request(_small(spec.overhead), {}),
    )
    if max(request) > _MAX:
        findings.wrong((*pod.path, "containers"), f"{max(request)} of one resource", "less: no machine has as much")
    share = _kubeshare(pod, findings)
    if share is not None:
        if request.gpu_milli:
            findings.warn(pod.path, "GPUs among the resources are not counted: the kubeshare annotations are")
        request = request._replace(gpu_milli=share.gpu_milli, gpu_bytes=share.gpu_bytes)
        limit = limit._replace(gpu_milli=0, gpu_bytes=share.gpu_bytes)  # the share of time is KubeShare's to enforce
    elif request.gpu_milli > WHOLE_GPU_MILLI and request.shares_gpu:
        findings.wrong(
            (*pod.container_path(0), "resources"), f"{request.gpu_milli / 1000:g} GPUs", "whole GPUs, or a part of one"
        )
    return request, limit


def _taken(requests: dict[str, Quantity], limits: dict[str, Quantity], path: Path, findings: Findings) -> Resources:
    """What is wrong is reported and counts nothing."""
    _check_each(requests, limits, path, findings)
    return effective_request(_small(requests), _small(limits))


def _small(amounts: dict[str, Quantity]) -> dict[str, Quantity]:
    return {name: quantity for name, quantity in amounts.items() if not _too_much(name, quantity)}


def _check_each(requests: dict[str, Quantity], limits: dict[str, Quantity], path: Path, findings: Findings) -> None:
    _check(limits, (*path, "limits"), findings)
    _check(requests, (*path, "requests"), findings)
    for name, quantity in requests.items():
        if name in limits and exact(quantity) > exact(limits[name]):
            findings.wrong((*path, "requests", name), quantity, f"at most the limit ({limits[name]})")


def _check(amounts: dict[str, Quantity], path: Path, findings: Findings) -> None:
    for name, quantity in amounts.items():
        if name in RESOURCES and _too_much(name, quantity):
            findings.wrong((*path, name), quantity, "less: no machine has as much")
        elif findings.for_pods and name in _OWN_WORDS:
            findings.wrong((*path, name), quantity, f"nvidia.com/gpu in a cluster, or a share: {_SHARES}")
        elif findings.for_pods and name in _CARDS and exact(quantity).denominator > 1:
            findings.wrong((*path, name), quantity, f"whole cards in a cluster; a share is said by {_SHARES}")


def _too_much(name: str, quantity: Quantity) -> bool:
    try:
        return max(effective_request({name: quantity}, {})) > _MAX
    except InvalidRequest:
        return True


def _kubeshare(pod: PodAt, findings: Findings) -> Resources | None:
    """A share of one card by annotation: what is guaranteed, the most, and memory. All three or none."""
    written = pod.template.metadata.annotations
    if not any(key in written for key in KUBESHARE):
        return None
    path = pod.annotations_path
    numbers: list[int] = []
    for key in KUBESHARE:
        try:
            numbers.append((memory_bytes if key.endswith("mem") else gpu_milli)(written[key]))
        except KeyError:
            findings.wrong((*path, key), None, f"a value: {', '.join(KUBESHARE)} go together")
        except InvalidRequest as error:
            findings.wrong((*path, key), written[key], error.expected)
    if len(numbers) < len(KUBESHARE):
        return NOTHING
    share, most, memory = numbers
    if most > WHOLE_GPU_MILLI:
        findings.wrong((*path, KUBESHARE[1]), written[KUBESHARE[1]], "at most 1.0, a whole card")
    elif share > most:
        findings.wrong((*path, KUBESHARE[0]), written[KUBESHARE[0]], f"at most gpu_limit ({written[KUBESHARE[1]]})")
    elif memory > _MAX:
        findings.wrong((*path, KUBESHARE[2]), written[KUBESHARE[2]], "less: no card has as much")
    return Resources(gpu_milli=share, gpu_bytes=memory)
