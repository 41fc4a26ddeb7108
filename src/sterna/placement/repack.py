"""Voda's placement: whenever a size changes, pack all jobs afresh, then bind the packing so that fewest workers move.

It crosses fewer nodes than `packed` in the long run and pays for that with migrations. While every job holds what it is
granted nothing is touched. Otherwise jobs are packed in order of decreasing size, best fit, onto empty copies of the
nodes (`packing.py`), the copies are matched with nodes (`binding.py`), and a worker that can stay keeps its seat and
number (`seats.py`).

Departures from Voda: a split job puts only its remainder on its last node; the matching knows capacities, cards and
which jobs nodes admit; a worker keeps its number while it lives; what a lost node held is placed again at once. Jobs
with a worker on a node that admits no new ones are completed where they are instead of being packed afresh. A packing
that would cost a job workers it could keep, or that moves jobs and changes no size, is not taken: `packed` settles it
in place.

Jobs of one size are packed in the order of their ids. Voda's came in the order in which Go walks a map, another one
each time, so that jobs change partners and move after decisions that had nothing to do with them. `repack-by-lot` does
that too, for comparing with what was measured so: lots are drawn from the snapshot's seed, anew at every moment.
"""

from collections.abc import Callable, Mapping, Set
from hashlib import blake2b

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.placement.binding import Placed, bound
from sterna.placement.packed import can_go_on, packed, staying
from sterna.placement.packing import best_fit_decreasing, nowhere, seated
from sterna.placement.room import Room
from sterna.placement.rule_check import relates
from sterna.placement.seats import dealt
from sterna.placement.shrinking import is_elastic, shrunk


def repack(view: Snapshot, target: Target) -> Layout:
    return _repacked(view, target, among_equals=str)


def repack_by_lot(view: Snapshot, target: Target) -> Layout:
    def lot(job_id: JobId) -> str:
        return blake2b(f"{view.seed} {view.now_s!r} {job_id}".encode(), digest_size=16).hexdigest() + job_id

    return _repacked(view, target, among_equals=lot)


def _repacked(view: Snapshot, target: Target, *, among_equals: Callable[[JobId], str]) -> Layout:
    jobs = {job.spec.id: job for job in view.jobs}
    room, kept, becauses = staying(view, jobs, target.grants)
    if not becauses:
        return Layout(kept, becauses)
    room = Room.empty(room.frame)
    specs = {job_id: jobs[job_id].spec for job_id in kept}
    grants = {job_id: target.grants[job_id] for job_id in kept}
    related = {job_id for job_id in kept if relates(view, jobs[job_id])}
    placed = _pinned(room, specs, kept, grants, related)
    empty = room.copy()
    afresh = {job_id: grant for job_id, grant in grants.items() if job_id not in placed}
    packing = best_fit_decreasing(room, specs, afresh, among_equals)
    now = {job_id: _at_most(specs[job_id], kept[job_id], packing[job_id]) for job_id in packing}
    binding = bound(empty, specs, packing, now)
    placed |= dealt(empty, specs, packing, now, binding)
    if _is_in_vain(jobs, grants, kept, placed):
        return packed(view, target)
    for job_id in [job_id for job_id in kept if not placed.get(job_id)]:
        becauses[job_id] = nowhere(room, specs[job_id], max(1, grants[job_id].floor))
    workers = {job_id: _same_if_equal(jobs[job_id], placed[job_id]) for job_id in kept if placed.get(job_id)}
    return Layout(workers, _reasons(jobs, grants, workers, becauses))


def _is_in_vain(jobs: Mapping[JobId, Job], grants: Mapping[JobId, Grant], kept: Placed, placed: Placed) -> bool:
    """Would the packing cost a job that can go on workers that it could keep, or move jobs without one more worker?"""
    sizes = {job_id: sum(map(is_elastic, placed.get(job_id, ()))) for job_id in kept}
    for job_id, workers in kept.items():
        spec = jobs[job_id].spec
        if can_go_on(spec, workers, grants[job_id]) and sizes[job_id] < spec.allowed_size(
            sum(map(is_elastic, workers))
        ):
            return True
    return all(sizes[job_id] == jobs[job_id].size and kept[job_id] == jobs[job_id].workers for job_id in kept)


def _pinned(
    room: Room,
    specs: Mapping[JobId, JobSpec],
    kept: Placed,
    grants: Mapping[JobId, Grant],
    related: Set[JobId],
) -> dict[JobId, tuple[Worker, ...]]:
    """Jobs with a worker on a node that would not take it in today, and jobs whose places rules between pods decide,
    completed where they are; () if they cannot be."""
    frame = room.frame
    pinned: dict[JobId, tuple[Worker, ...]] = {}
    for job_id, workers in kept.items():
        mask = frame.admitting(specs[job_id])
        closed = mask is not None and not all(mask[frame.index[worker.node]] for worker in workers)
        if closed or job_id in related:
            room.hold(specs[job_id], workers)
            pinned[job_id] = workers
    return {job_id: seated(room, specs[job_id], workers, grants[job_id]) or () for job_id, workers in pinned.items()}


def _at_most(spec: JobSpec, kept: tuple[Worker, ...], seats: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Those of the kept workers for which there is a seat."""
    return shrunk(spec, kept, sum(is_elastic(seat) for seat in seats))


def _same_if_equal(job: Job, placed: tuple[Worker, ...]) -> tuple[Worker, ...]:
    return job.workers if placed == job.workers else placed


def _reasons(
    jobs: Mapping[JobId, Job], grants: Mapping[JobId, Grant], workers: Placed, becauses: Mapping[JobId, Because]
) -> dict[JobId, Because]:
    """Why each job that changes does so; a lost or crowded node explains a move better than the packing does."""
    reasons = {job_id: because for job_id, because in becauses.items() if job_id not in workers}
    for job_id, placed in workers.items():
        if placed is jobs[job_id].workers:
            continue
        because, was = becauses.get(job_id), {worker[:2]: worker.node for worker in jobs[job_id].workers}
        moved = sum(was.get(worker[:2], worker.node) != worker.node for worker in placed)
        if because is None or (moved and because is grants[job_id].because):
            because = Because(Why.REPACKED, (("moved", moved),))
        reasons[job_id] = because
    return reasons
