"""What workers of a job are counted for in this cluster: its pods tell, or what admission makes of its templates.

Pods that are there take what they take, whatever admission would make of their template today; of several of a role the
least is what the job answers for, and what others of them take beyond it counts as a guest's (`node_index.py`). So no
pod must go because a LimitRange has changed.
"""

from collections.abc import Mapping
from dataclasses import replace

from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.node_objects import takes_room
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.lifecycle.counted_requests import counted_requests
from sterna.model.errors import InvalidRequest
from sterna.model.jobs import Role
from sterna.model.pod_requests import smaller
from sterna.model.resources import Resources


def with_counted_requests(view: JobView, admitted: Mapping[Role, Resources]) -> Standing:
    """The standing with what its workers are counted for. The same object: nothing changed."""
    workload, standing = view.workload, view.standing
    if workload is None or standing.finished:
        return standing
    written = {template.role: template.request for template in workload.roles}
    counted = counted_requests(written, {**admitted, **_of_pods(view)}, standing.counted)
    return standing if counted == standing.counted else replace(standing, counted=counted)


def _of_pods(view: JobView) -> dict[Role, Resources]:
    assert view.workload is not None
    least: dict[Role, Resources] = {}
    for pod in view.pods:
        place = place_of(view.workload, pod.metadata.name)
        if place is None or not takes_room(pod):
            continue
        try:
            request = request_of_pod(pod)
        except InvalidRequest:  # an amount that we cannot count tells nothing
            continue
        least[place[0]] = smaller(request, least.get(place[0], request))
    return least
