"""Growth after minimums: from the least seats (`least_seats.py`) back towards what was granted.

First every running job gets its own workers back where they were, in the policy's order, as far as the grant covers
them and they still fit: a job that need not give way is not touched. The rest is the placement's own growth, which
finds the jobs as if they held that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.placement.frame import Frame, frame_of
from sterna.placement.packing import numbered
from sterna.placement.room import Room
from sterna.placement.shrinking import belongs, is_elastic, shrunk

Workers = tuple[Worker, ...]


def regrown(view: Snapshot, target: Target, seats: Mapping[JobId, Workers]) -> Snapshot:
    """The world as if every job with a grant held its seat, and what it may keep of what it holds beside it."""
    jobs, room = view.by_id, Room.empty(frame_of(view.cluster))
    granted = {job_id: seats[job_id] for job_id in target.grants if job_id in seats and job_id in jobs}
    for job_id, workers in granted.items():
        room.hold(jobs[job_id].spec, workers)
    holding = {
        job_id: _with_its_own(room, jobs[job_id], target.grants[job_id], workers) for job_id, workers in granted.items()
    }
    return replace(view, jobs=tuple(_holding(job, holding.get(job.spec.id, ())) for job in view.jobs))


def held_as_it_was(room: Room, spec: JobSpec, workers: Sequence[Worker]) -> bool:
    """Put these workers where they say, on their very cards; says whether they fit. If not, the room is as before."""
    for position, worker in enumerate(workers):
        at = room.frame.index.get(worker.node)
        request = spec.request_of(worker.role)
        if at is not None:
            room.occupy(at, request, worker.devices)
        if at is None or room.is_overfull(at):
            room.release(spec, workers[: position + 1])
            return False
    return True


def may_stay(frame: Frame, job: Job) -> Workers:
    """What a job holds, but for what must leave its node."""
    keepers = frame.keepers(job.spec.tolerations)
    return tuple(worker for worker in job.workers if worker.node in keepers and belongs(job.spec, worker))


def recognised(job: Job, workers: Workers) -> Workers:
    """The same places, with the job's own workers in those that they hold: one that need not move keeps its number.

    Unless no worker would then have the number of the first one, which never goes, though it may be moved.
    """
    if workers == job.workers:
        return job.workers
    held = list(job.workers)
    stays = [worker for worker in workers if worker in held]
    for worker in stays:
        held.remove(worker)
    new: list[Worker] = []
    for worker in workers:
        if worker in stays:
            continue
        own = next((own for own in held if own._replace(ordinal=worker.ordinal) == worker), None)
        if own is None:
            new.append(worker)
        else:
            held.remove(own)
            stays.append(own)
    for worker in new:
        taken = {other.ordinal for other in stays if other.role is worker.role}
        ordinal = next(number for number in chain((worker.ordinal,), count()) if number not in taken)
        stays.append(worker._replace(ordinal=ordinal))
    first = min((worker.ordinal for worker in job.workers if is_elastic(worker)), default=0)
    if all(worker.ordinal != first for worker in stays if is_elastic(worker)):
        return workers
    return numbered(job.spec, stays, ())


def _with_its_own(room: Room, job: Job, grant: Grant, seat: Workers) -> Workers:
    """The seat, and those of the job's workers that fit beside it: sizes that it may have, within the grant."""
    spec = job.spec
    own = shrunk(spec, may_stay(room.frame, job), grant.workers)
    taken = {worker[:2] for worker in seat}
    missing = [worker for worker in own if is_elastic(worker) and worker[:2] not in taken]
    back = [worker for worker in missing if held_as_it_was(room, spec, (worker,))]
    size = sum(map(is_elastic, seat))
    surplus = size + len(back) - max(size, spec.allowed_size(min(size + len(back), grant.workers)))
    for worker in back[len(back) - surplus :]:
        room.release(spec, (worker,))
    whole = numbered(spec, seat, back[: len(back) - surplus])
    return job.workers if whole == job.workers else whole


def _holding(job: Job, workers: Workers) -> Job:
    return job if job.workers is workers or job.workers == workers else job.but(workers=workers)
