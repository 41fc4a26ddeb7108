"""The default placement: what can stay stays, and what is new goes on as few nodes as possible.

First every job that has workers keeps those that may stay, and lets go of those its grant no longer covers; then, in
the policy's order, jobs grow and start (`packing.py`). Nothing is moved to make room: a job that finds no nodes gets
nothing and is told why. Rules follow DRAGON (one node first, parameter-server node first, lonely workers leave first),
with its random orders made total and, of the nodes that hold a whole job, the tightest instead of any.
"""

from collections.abc import Mapping

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.placement.crowding import crowded_out
from sterna.placement.frame import Frame, frame_of
from sterna.placement.packing import nowhere, seated
from sterna.placement.room import Room, holding
from sterna.placement.shrinking import belongs, is_elastic, shrunk


def packed(view: Snapshot, target: Target) -> Layout:
    jobs = view.by_id
    room, workers, becauses = staying(view, jobs, target.grants, idle=True)
    for job_id in [job_id for job_id in workers if job_id in becauses]:
        job, grant = jobs[job_id], target.grants[job_id]
        placed = seated(room, job.spec, workers[job_id], grant)
        put_down(job, grant, placed, room, workers, becauses)
    return Layout(workers, becauses)


def put_down(
    job: Job,
    grant: Grant,
    placed: tuple[Worker, ...] | None,
    room: Room,
    workers: dict[JobId, tuple[Worker, ...]],
    becauses: dict[JobId, Because],
) -> None:
    """What became of a job that was to start or change. `placed` is None if there is no room for it."""
    if placed is None:
        del workers[job.id]
        becauses[job.id] = nowhere(room, job.spec, max(1, grant.floor))
    elif placed == job.workers:
        workers[job.id] = job.workers  # it may not grow after all: nothing happened to it
        del becauses[job.id]
    else:
        workers[job.id] = placed


def staying(
    view: Snapshot, jobs: Mapping[JobId, Job], grants: Mapping[JobId, Grant], *, idle: bool = False
) -> tuple[Room, dict[JobId, tuple[Worker, ...]], dict[JobId, Because]]:
    """What every job that is to have workers keeps, in the order of the grants, and the room that holds just that.

    Jobs that are not settled yet, as they start, change or lost a worker, have a reason; the others are as they were.
    With `idle` the room may stay empty if no job has a reason: then it is not asked, and nodes that were found to hold
    what is on them once hold it still, since guests and cards that come or go make another cluster.
    """
    frame = frame_of(view.cluster)
    workers: dict[JobId, tuple[Worker, ...]] = {}
    becauses: dict[JobId, Because] = {}
    for job_id, grant in grants.items():
        job = jobs.get(job_id)
        if job is None or grant.workers <= 0:
            continue
        held = job.workers
        if held and is_settled(frame, job, grant):
            workers[job_id] = held
        else:
            workers[job_id], becauses[job_id] = _kept(frame, job, grant) if held else ((), grant.because)
    if idle and not becauses and frame.found_sound:
        return Room.bare(frame), workers, becauses
    room = holding(frame, jobs, workers)
    _let_go(room, jobs, grants, workers, becauses)
    return room, workers, becauses


def is_settled(frame: Frame, job: Job, grant: Grant) -> bool:
    """Does the job hold just what it is granted, on nodes where it may stay?"""
    spec = job.spec
    return (
        job.size == grant.workers
        and (not spec.fixed or len(job.workers) == grant.workers + spec.fixed_count)
        and frame.keeps_all(spec, job.workers)
    )


def can_go_on(spec: JobSpec, kept: tuple[Worker, ...], grant: Grant) -> bool:
    """Are these workers enough to train on without any other: a size above the floor, and all fixed roles?"""
    size = sum(map(is_elastic, kept))
    return spec.allowed_size(size) >= max(1, grant.floor) and len(kept) - size == spec.fixed_count


def _kept(frame: Frame, job: Job, grant: Grant) -> tuple[tuple[Worker, ...], Because]:
    spec = job.spec
    keepers = frame.keepers(spec.tolerations)
    kept = tuple(worker for worker in job.workers if worker.node in keepers and belongs(spec, worker))
    for worker in job.workers:
        if worker.node not in keepers:
            return kept, Because(frame.why_not_kept(worker.node), (("node", worker.node),))
    return kept, grant.because


def _let_go(
    room: Room,
    jobs: Mapping[JobId, Job],
    grants: Mapping[JobId, Grant],
    workers: dict[JobId, tuple[Worker, ...]],
    becauses: dict[JobId, Because],
) -> None:
    """Shrink jobs to their grants, then clear nodes that are overfull even so. Changes room, workers and becauses."""
    overfull = room.overfull()
    crowded = {room.frame.nodes[at].id for at in overfull}
    for job_id in becauses:
        spec, kept = jobs[job_id].spec, workers[job_id]
        remaining = shrunk(spec, kept, grants[job_id].workers, crowded=crowded)
        if remaining is not kept:
            room.release(spec, set(kept).difference(remaining))
            workers[job_id] = remaining
    room.frame.found_sound = not overfull
    if not overfull:
        return
    for job_id, leaving in crowded_out(room, jobs, workers).items():
        workers[job_id] = tuple(worker for worker in workers[job_id] if worker not in leaving)
        becauses[job_id] = Because(Why.CROWDED_OUT, (("node", min(worker.node for worker in leaving)),))
