"""The placing rule of Pollux' simulator: always the node with most free GPUs next, as much of it as needed.

Jobs whose size does not change keep their nodes; the others let go of everything and are placed anew, in the policy's
order (`widest`) or the smallest first (`widest-smallest-first`, which goes with Optimus there). A job's workers are
numbered in the order in which nodes were taken, and its restarts and speed in that simulator depend on that order.

Departures: where fewer than granted can be placed, the grant's floor and the job's sizes are honoured; fixed roles go
where most workers fit beside them. And a job that would get fewer workers elsewhere, or move without any growth, stays
and grows where it is while the others are placed around it: else two jobs could evict each other for ever.
"""

from collections.abc import Callable, Iterable

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.placement.packed import can_go_on, put_down, staying
from sterna.placement.packing import missing_fixed, numbered, seated
from sterna.placement.room import Room
from sterna.placement.shrinking import is_elastic


def widest(view: Snapshot, target: Target) -> Layout:
    return _placed(view, target, lambda job_ids: job_ids)


def widest_smallest_first(view: Snapshot, target: Target) -> Layout:
    grants = target.grants
    return _placed(view, target, lambda job_ids: sorted(job_ids, key=lambda job_id: grants[job_id].workers))


def _placed(view: Snapshot, target: Target, order: Callable[[list[JobId]], Iterable[JobId]]) -> Layout:
    jobs, grants = view.by_id, target.grants
    room, workers, becauses = staying(view, jobs, grants, idle=True)
    changing = {job_id: workers[job_id] for job_id in workers if job_id in becauses}
    pinned: set[JobId] = set()
    while True:
        trial = room.copy()
        for job_id, kept in changing.items():
            if job_id not in pinned:
                trial.release(jobs[job_id].spec, kept)
        placed: dict[JobId, tuple[Worker, ...] | None] = {}
        for job_id in order(list(changing)):
            spec, grant = jobs[job_id].spec, grants[job_id]
            in_place = job_id in pinned
            placed[job_id] = seated(trial, spec, changing[job_id], grant) if in_place else _filled(trial, spec, grant)
        moved_in_vain = {
            job_id
            for job_id, kept in changing.items()
            if job_id not in pinned and _is_in_vain(jobs[job_id], grants[job_id], kept, placed[job_id])
        }
        if not moved_in_vain:
            break
        pinned |= moved_in_vain
    for job_id in order(list(changing)):
        put_down(jobs[job_id], grants[job_id], placed[job_id], trial, workers, becauses)
    return Layout(workers, becauses)


def _is_in_vain(job: Job, grant: Grant, kept: tuple[Worker, ...], placed: tuple[Worker, ...] | None) -> bool:
    """Would a job that can go on where it is have fewer workers elsewhere, or just as many as it has now?"""
    if not can_go_on(job.spec, kept, grant):
        return False
    found = 0 if placed is None else sum(map(is_elastic, placed))
    return found < job.spec.allowed_size(sum(map(is_elastic, kept))) or (
        found == job.size and kept == job.workers and placed != kept
    )


def _filled(room: Room, spec: JobSpec, grant: Grant) -> tuple[Worker, ...] | None:
    mask, request = room.frame.admitting(spec), spec.request
    fixed = missing_fixed(room, spec, (), mask)
    if fixed is None:
        return None
    slots = room.slots(request, mask).copy()
    size = spec.allowed_size(min(grant.workers, int(slots.sum())))
    if size < max(1, grant.floor):
        room.release(spec, fixed)
        return None
    workers: list[Worker] = []
    while len(workers) < size:
        at = int(slots.argmax())  # the first of several that are equally wide
        here = range(len(workers), min(size, len(workers) + int(slots[at])))
        workers += [Worker(Role.WORKER, ordinal, room.frame.nodes[at].id, room.take(at, request)) for ordinal in here]
        slots[at] = 0
    return numbered(spec, fixed, workers)
