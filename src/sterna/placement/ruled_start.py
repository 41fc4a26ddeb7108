"""Could a job that rules relate to other pods start with its least size, beside these workers and no others?"""

from collections.abc import Iterable

from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.neighbours import Neighbourhood
from sterna.model.nodes import Cluster
from sterna.model.target import Grant
from sterna.model.why import KEPT
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from sterna.placement.rule_seats import seated_by_rules
from sterna.placement.tenants import Tenants


def seats_at_least(
    around: Neighbourhood, cluster: Cluster, spec: JobSpec, beside: Iterable[tuple[Job, tuple[Worker, ...]]] = ()
) -> tuple[Worker, ...] | None:
    """Seats for its least size on the nodes of this cluster. None: no such seats were found."""
    room, tenants = Room.empty(frame_of(cluster)), Tenants(around)
    for job, workers in beside:
        if job.spec.id != spec.id:
            room.hold(job.spec, workers)
            tenants.hold(job.spec, workers)
    least = spec.workers_min
    return seated_by_rules(room, tenants, spec, (), Grant(least, least, KEPT))
