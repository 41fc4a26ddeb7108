"""Which moves were begun, of the jobs as they are known. What comes of them is `lifecycle/begun_moves.py`."""

from sterna.engines.kubernetes.status.standing import Change
from sterna.engines.kubernetes.world.world import World
from sterna.lifecycle.begun_moves import is_begun
from sterna.model.ids import JobId
from sterna.model.phases import Phase


def begun(world: World) -> dict[JobId, Change]:
    """Moves that the scheduler itself began, of jobs that have let go of everything. Those that users asked for are
    asked for again until they are over; one whose node turned pods away is free to go elsewhere.
    """
    found: dict[JobId, Change] = {}
    for job_id, value in world.values.items():
        if value.phase is not Phase.RESIZING or value.workers:
            continue  # a status is read for few jobs only
        job = world.owner(job_id)
        standing = None if job is None else job.status.recorded
        if standing is None or standing.change is None or standing.change.migration or standing.rejections:
            continue
        if is_begun(value.phase, value.workers, standing.change):
            found[job_id] = standing.change
    return found
