"""What one pod takes of its node, from what its parts ask for: the sum that kube-scheduler makes. Pure.

Guests, templates of jobs and what admission made of them are all counted by this one function. Reading the parts from
an object or a manifest is done where those are read; nothing here knows their shapes.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sterna.model.quantities import Quantity, effective_request
from sterna.model.resources import NOTHING, Resources

POD_LEVEL = ("cpu", "memory")  # of what we count, all that Kubernetes lets a pod ask for as a whole


class InitContainer(NamedTuple):
    request: Resources
    stays: bool = False  # a sidecar (restartPolicy Always): it runs on beside all that start after it


class PodLevel(NamedTuple):
    """`spec.resources` of a pod: what it asks for as a whole, whatever its containers ask for."""

    requests: Mapping[str, Quantity]
    limits: Mapping[str, Quantity]


def pod_request(
    containers: Iterable[Resources],
    init_containers: Iterable[InitContainer] = (),
    *,
    as_a_whole: PodLevel | None = None,
    overhead: Resources = NOTHING,
) -> Resources:
    """In each resource the most that is ever asked for at a time. `InvalidRequest`: `as_a_whole` has no amounts."""
    asked = _of_containers(containers, init_containers)
    if as_a_whole is not None:
        asked = _replaced(asked, as_a_whole)
    return asked.plus(overhead)


def larger(left: Resources, right: Resources) -> Resources:
    """In each resource the larger of the two."""
    return Resources(*map(max, zip(left, right, strict=True)))


def smaller(left: Resources, right: Resources) -> Resources:
    return Resources(*map(min, zip(left, right, strict=True)))


def beyond(request: Resources, counted: Resources) -> Resources:
    """What it takes above what is counted; nothing in those resources that it takes less of."""
    return larger(request.minus(counted), NOTHING)


def _of_containers(containers: Iterable[Resources], init_containers: Iterable[InitContainer]) -> Resources:
    sidecars, most = NOTHING, NOTHING
    for request, stays in init_containers:
        starting = sidecars.plus(request)
        if stays:
            sidecars = starting
        most = larger(most, starting)
    running = sidecars
    for request in containers:
        running = running.plus(request)
    return larger(most, running)


def _replaced(asked: Resources, level: PodLevel) -> Resources:
    """A limit stands in only where no container asks for anything, as the API server fills it in."""
    wanted, most = (effective_request(_counted(part), {}) for part in level)
    cpu, memory = (
        wanted[place] if name in level.requests else asked[place] or most[place] for place, name in enumerate(POD_LEVEL)
    )
    return asked._replace(cpu_milli=cpu, memory_bytes=memory)


def _counted(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: amounts[name] for name in POD_LEVEL if name in amounts}
