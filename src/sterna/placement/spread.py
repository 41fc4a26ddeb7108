"""Spread by pod count, as Kubernetes' own scheduler does with pods that ask for nothing: always the emptiest node next.

What can stay stays. Every new worker, fixed roles first, goes to the node that holds fewest pods, guests and workers
that are leaving included; ties go to the lower id. A node that the owner prefers comes first for the whole job, as in
every placement, and then with all of it or not at all.

It is the placement for jobs that request nothing: a worker without a request fits on every node any number of times
(`Room.slots_at`), so a placement that looks for a tight fit would pile all of them on one node.
"""

from collections.abc import Sequence

from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.placement.frame import Frame, Mask
from sterna.placement.packed import put_down, staying
from sterna.placement.packing import free_ordinals, numbered, on_preferred_node
from sterna.placement.room import Room
from sterna.placement.shrinking import is_elastic, shrunk


def spread_by_count(view: Snapshot, target: Target) -> Layout:
    jobs = view.by_id
    room, workers, becauses = staying(view, jobs, target.grants, idle=True)
    if not becauses:
        return Layout(workers, becauses)
    pods = _pods(room.frame, view, [worker for held in workers.values() for worker in held])
    for job_id in [job_id for job_id in workers if job_id in becauses]:
        job, grant, kept = jobs[job_id], target.grants[job_id], workers[job_id]
        placed = None if kept else on_preferred_node(room, job.spec, grant.workers)
        if placed is None:
            placed = _seated(room, pods, job.spec, kept, grant)
        _count(room.frame, pods, kept, -1)
        _count(room.frame, pods, placed or (), 1)
        put_down(job, grant, placed, room, workers, becauses)
    return Layout(workers, becauses)


def _pods(frame: Frame, view: Snapshot, workers: Sequence[Worker]) -> list[int]:
    """How many each node holds, by position."""
    pods = [len(node.guests) for node in frame.nodes]
    _count(frame, pods, workers, 1)
    for job in view.leaving:
        _count(frame, pods, job.leaving, 1)
    return pods


def _count(frame: Frame, pods: list[int], workers: Sequence[Worker], by: int) -> None:
    for worker in workers:
        at = frame.index.get(worker.node)
        if at is not None:
            pods[at] += by


def _seated(
    room: Room, pods: Sequence[int], spec: JobSpec, kept: tuple[Worker, ...], grant: Grant
) -> tuple[Worker, ...] | None:
    """`kept`, which the room holds, and what the grant adds: as much as fits, in sizes that the job may have. None if
    that is below the grant's floor; the room is then as if the job were not there."""
    mask, crowd = room.frame.admitting(spec), list(pods)
    held = {(worker.role, worker.ordinal) for worker in kept}
    missing = [
        (fixed.role, ordinal)
        for fixed in spec.fixed
        for ordinal in range(fixed.replicas)
        if (fixed.role, ordinal) not in held
    ]
    size = sum(is_elastic(worker) for worker in kept)
    new: list[Worker] = []
    for role, ordinal in missing:
        worker = _newcomer(room, crowd, mask, spec.request_of(role), role, ordinal)
        if worker is None:
            room.release(spec, (*kept, *new))
            return None
        new.append(worker)
    more = max(0, min(grant.workers - size, int(room.slots(spec.request, mask).sum())))
    for ordinal in free_ordinals(spec, kept, more):
        worker = _newcomer(room, crowd, mask, spec.request, Role.WORKER, ordinal)
        if worker is None:
            break
        new.append(worker)
    workers = numbered(spec, kept, new)
    goal = spec.allowed_size(sum(is_elastic(worker) for worker in workers))
    if goal < max(1, grant.floor):
        room.release(spec, workers)
        return None
    remaining = shrunk(spec, workers, goal)
    room.release(spec, set(workers).difference(remaining))
    return remaining


def _newcomer(room: Room, crowd: list[int], mask: Mask, request: Resources, role: Role, ordinal: int) -> Worker | None:
    open_to_it = [at for at in range(len(crowd)) if (mask is None or mask[at]) and room.slots_at(at, request) > 0]
    if not open_to_it:
        return None
    at = min(open_to_it, key=lambda at: (crowd[at], at))
    crowd[at] += 1
    return Worker(role, ordinal, room.frame.nodes[at].id, room.take(at, request))
