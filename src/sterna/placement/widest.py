"""The placing rule of Pollux' simulator: always the node with most free GPUs next, as much of it as needed.

Jobs whose size does not change keep their nodes; the others let go of everything and are placed anew, in the policy's
order (`widest`) or the smallest first (`widest-smallest-first`, which goes with Optimus there). A job's workers are
numbered in the order in which nodes were taken, and its restarts and speed in that simulator depend on that order.

Departures: where fewer than granted can be placed, the grant's floor and the job's sizes are honoured; fixed roles go
where most workers fit beside them.
"""

from collections.abc import Callable, Iterable

from sterna.model.ids import JobId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.placement.packed import staying
from sterna.placement.packing import missing_fixed, nowhere, numbered
from sterna.placement.room import Room


def widest(view: Snapshot, target: Target) -> Layout:
    return _placed(view, target, lambda job_ids: job_ids)


def widest_smallest_first(view: Snapshot, target: Target) -> Layout:
    grants = target.grants
    return _placed(view, target, lambda job_ids: sorted(job_ids, key=lambda job_id: grants[job_id].workers))


def _placed(view: Snapshot, target: Target, order: Callable[[list[JobId]], Iterable[JobId]]) -> Layout:
    jobs = view.by_id
    room, workers, becauses = staying(view, jobs, target.grants, idle=True)
    changing = [job_id for job_id in workers if job_id in becauses]
    for job_id in changing:
        room.release(jobs[job_id].spec, workers[job_id])
    for job_id in order(changing):
        job, grant = jobs[job_id], target.grants[job_id]
        placed = _filled(room, job.spec, grant)
        if placed is None:
            del workers[job_id]
            becauses[job_id] = nowhere(room, job.spec, max(1, grant.floor))
        elif placed == job.workers:
            workers[job_id] = job.workers
            del becauses[job_id]
        else:
            workers[job_id] = placed
    return Layout(workers, becauses)


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
