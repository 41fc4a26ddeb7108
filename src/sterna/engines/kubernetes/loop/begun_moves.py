"""Moves that were begun are brought to their end: whoever let go in order to be elsewhere goes there.

A job of which nobody survives a move lets go of everything before it takes up anything. If the operator is killed in
between, or a plan is made anew, placement sees a job without a place and knows nothing of where it was to go. The job's
open change does. Pure but for `begun`, which reads what is known.
"""

from collections.abc import Mapping

from sterna.engines.kubernetes.status.standing import Change
from sterna.engines.kubernetes.world.job_index import status_of
from sterna.engines.kubernetes.world.world import World
from sterna.lifecycle.changes import ChangeKind
from sterna.model.ids import JobId
from sterna.model.layout import Layout
from sterna.model.phases import Phase
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.placement.moving import Moving
from sterna.placement.rebalancing import finish_move
from sterna.planner.decide import Placing


def begun(world: World) -> dict[JobId, Change]:
    """Moves that the scheduler itself began, of jobs that have let go of everything. Those that somebody asked for are
    asked for again until they are over; one whose node turned pods away is free to go elsewhere.
    """
    found: dict[JobId, Change] = {}
    for job_id, value in world.values.items():
        if value.phase is not Phase.RESIZING or value.workers:
            continue
        job = world.owner(job_id)
        standing = None if job is None else status_of(job.object).recorded
        change = None if standing is None else standing.change
        if standing is None or change is None or standing.rejections:
            continue
        if change.kind == ChangeKind.MIGRATION and change.after and not change.migration:
            found[job_id] = change
    return found


def placing(place: Placing, moves: Mapping[JobId, Change]) -> Placing:
    """The placement, with these jobs where they were to go, as far as there is room."""
    if not moves:
        return place

    def placed(view: Snapshot, target: Target) -> Layout:
        moving = Moving(view, place(view, target))
        for job_id, change in moves.items():
            if job_id in view.by_id and job_id in moving.layout.workers:
                finish_move(moving, job_id, change.after, why=change.why)
        return moving.layout

    return placed
