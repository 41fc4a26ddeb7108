"""DRAGON's placing: settles how much of each wish of `policies/dragon.py` comes true on real nodes.

What runs stays. For the job that others must make room for, workers are taken one at a time from those above their
minimum until it fits, and not one more; if it cannot fit even so, no job gives anything up and none overtakes it,
since it could start on an emptier cluster. Then the queue is served in order, with skipping, and then jobs grow.

Workers that are leaving count as room to come, so a need that is being met is not met twice. The three placements
differ in which jobs they take from and which they give to.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sterna.model.ids import JobId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.placement.packed import staying
from sterna.placement.packing import free_ordinals, nowhere, numbered, seated
from sterna.placement.room import Room
from sterna.placement.shrinking import ANCHORS, is_elastic, shrunk


@dataclass(frozen=True, slots=True)
class _Table:
    """One placement in the making."""

    jobs: Mapping[JobId, Job]
    grants: Mapping[JobId, Grant]
    holders: tuple[JobId, ...]  # jobs that had workers to begin with, in the policy's order
    room: Room
    workers: dict[JobId, tuple[Worker, ...]]
    becauses: dict[JobId, Because] = field(default_factory=dict)

    def size(self, job_id: JobId) -> int:
        workers = self.workers[job_id]
        if workers and workers[0].role is not Role.WORKER:  # fixed roles stand first
            return sum(map(is_elastic, workers))
        return len(workers)

    def running(self) -> list[JobId]:
        """Jobs that hold workers and keep them, in the policy's order."""
        return [job_id for job_id in self.holders if self.workers.get(job_id)]


Victims = Callable[[_Table], Iterator[JobId]]  # the job to take each next step of workers from
Growth = Callable[[_Table], None]


def dragon(view: Snapshot, target: Target) -> Layout:
    """Take from the oldest job first and give to the oldest first, as the operator does."""
    return _settled(view, target, victims=_oldest_first, grow=_grow_in_order)


def dragon_balanced(view: Snapshot, target: Target) -> Layout:
    """Take from the largest job and give to the smallest, a step at a time."""
    return _settled(view, target, victims=_largest_first, grow=_grow_smallest_first)


def dragon_prototype(view: Snapshot, target: Target) -> Layout:
    """Grow only beside the parameter server, one worker a job in turn, as the paper's prototype does."""
    return _settled(view, target, victims=_oldest_first, grow=_grow_beside_anchor)


def _settled(view: Snapshot, target: Target, *, victims: Victims, grow: Growth) -> Layout:
    table = _what_stays(view, target)
    head = target.make_room_for
    blocked = head is not None and not _make_room(table, head, victims)
    if blocked:
        _hold_back(table, Because(Why.RESERVED, (("for_job", str(head)),)))
    else:
        _serve_queue(table)
    if not blocked:
        grow(table)
    return Layout(table.workers, table.becauses)


def _what_stays(view: Snapshot, target: Target) -> _Table:
    """Everything that runs, at the size it has; workers whose node is lost or drained get another place."""
    jobs, grants = view.by_id, target.grants
    holding = {job.spec.id for job in view.holding if job.workers}
    held = {job_id: _at_its_size(jobs[job_id], grants[job_id]) for job_id in grants if job_id in holding}
    room, workers, becauses = staying(view, jobs, held)
    for job_id in tuple(becauses):
        job, grant = jobs[job_id], held[job_id]
        placed = seated(room, job.spec, workers[job_id], grant)
        if placed is None:
            becauses[job_id] = nowhere(room, job.spec, grant.floor)
        workers[job_id] = placed or ()
    return _Table(jobs, grants, tuple(held), room, workers, becauses)


def _at_its_size(job: Job, grant: Grant) -> Grant:
    """What runs stays as it is; a loss that left it between two sizes or below the smallest is made good first."""
    return Grant(min(job.size_to_keep, grant.workers), min(grant.floor, job.spec.workers_min), grant.because)


def _waiting(table: _Table) -> list[tuple[Job, Grant]]:
    jobs, known = table.jobs, table.workers.keys() | set(table.holders)
    return [(jobs[job_id], grant) for job_id, grant in table.grants.items() if job_id not in known]


def _hold_back(table: _Table, because: Because) -> None:
    for job, _ in _waiting(table):
        table.workers[job.id] = ()
        table.becauses.setdefault(job.id, because)


def _serve_queue(table: _Table) -> None:
    """Start jobs that fit. Room only shrinks meanwhile: where too few slots were left for such workers, none fits."""
    slots: dict[Resources, int] = {}  # never more than these are left for such workers
    refused: dict[tuple[Resources, int], Because] = {}
    workers, becauses = table.workers, table.becauses
    for job, grant in _waiting(table):
        spec = job.spec
        request, floor = spec.request, grant.floor
        because = refused.get((request, floor))
        if because is None and slots.get(request, floor) < floor:
            because = refused[request, floor] = nowhere(table.room, spec, floor)
        if because is not None:
            workers[spec.id] = ()
            becauses[spec.id] = because
        elif not _start(table, job, grant):
            slots[request] = int(table.room.slots(request).sum())


def _start(table: _Table, job: Job, grant: Grant) -> bool:
    placed = seated(table.room, job.spec, (), grant)
    table.workers[job.id] = placed or ()
    table.becauses[job.id] = grant.because if placed else nowhere(table.room, job.spec, grant.floor)
    return placed is not None


# -- making room


def _make_room(table: _Table, head: JobId, victims: Victims) -> bool:
    """Start `head`, at the price of others' workers above their minimum if need be; says whether it starts."""
    job, grant = table.jobs[head], table.grants[head]
    before = dict(table.workers)
    if _start(table, job, grant):
        return True
    for victim in victims(table):
        _take_a_step(table, victim, head)
        if _start(table, job, grant):
            return True
    for job_id, workers in before.items():  # in vain: no job gives anything up
        back = tuple(worker for worker in workers if worker not in table.workers[job_id])
        if back:
            table.room.hold(table.jobs[job_id].spec, back)
            table.workers[job_id] = workers
            table.becauses.pop(job_id, None)
    return False


def _take_a_step(table: _Table, victim: JobId, head: JobId) -> None:
    spec, workers = table.jobs[victim].spec, table.workers[victim]
    remaining = shrunk(spec, workers, table.size(victim) - spec.workers_step)
    table.room.release(spec, set(workers).difference(remaining))
    table.workers[victim] = remaining
    table.becauses[victim] = Because(Why.MADE_ROOM, (("for_job", head),))


def _oldest_first(table: _Table) -> Iterator[JobId]:
    for job_id in table.running():
        while _can_give(table, job_id):
            yield job_id


def _largest_first(table: _Table) -> Iterator[JobId]:
    order = {job_id: position for position, job_id in enumerate(table.running())}
    while givers := [job_id for job_id in order if _can_give(table, job_id)]:
        yield min(givers, key=lambda job_id: (-table.size(job_id), order[job_id]))


def _can_give(table: _Table, job_id: JobId) -> bool:
    spec = table.jobs[job_id].spec
    return table.size(job_id) - spec.workers_step >= spec.workers_min


# -- growing


def _wanting(table: _Table) -> list[JobId]:
    return [job_id for job_id in table.running() if table.grants[job_id].workers > table.size(job_id)]


def _grow_in_order(table: _Table) -> None:
    for job_id in _wanting(table):
        _grow_to(table, job_id, table.grants[job_id].workers)


def _grow_smallest_first(table: _Table) -> None:
    order = {job_id: position for position, job_id in enumerate(_wanting(table))}
    while order:
        job_id = min(order, key=lambda job_id: (table.size(job_id), order[job_id]))
        size = table.size(job_id)
        wanted = size + table.jobs[job_id].spec.workers_step
        if wanted > table.grants[job_id].workers or not _grow_to(table, job_id, wanted):
            del order[job_id]


def _grow_to(table: _Table, job_id: JobId, size: int) -> bool:
    """As far towards `size` as there is room; says whether the job got anything."""
    job, kept = table.jobs[job_id], table.workers[job_id]
    placed = seated(table.room, job.spec, kept, Grant(size, table.size(job_id), table.grants[job_id].because))
    if placed is None or placed == kept:
        return False
    table.workers[job_id] = placed
    table.becauses[job_id] = table.grants[job_id].because
    return True


def _grow_beside_anchor(table: _Table) -> None:
    growing = _wanting(table)
    while growing:
        growing = [job_id for job_id in growing if _one_beside_anchor(table, job_id)]


def _one_beside_anchor(table: _Table, job_id: JobId) -> bool:
    """One step more on the node of the job's parameter server; says whether there was room and need."""
    spec, kept = table.jobs[job_id].spec, table.workers[job_id]
    anchors = [table.room.frame.index[worker.node] for worker in kept if worker.role in ANCHORS]
    step = spec.workers_step
    if table.size(job_id) + step > table.grants[job_id].workers or not anchors:
        return False
    at = anchors[0]
    if not table.room.frame.admits(at, spec) or table.room.slots_at(at, spec.request) < step:
        return False
    node = table.room.frame.nodes[at].id
    new = [
        Worker(Role.WORKER, ordinal, node, table.room.take(at, spec.request))
        for ordinal in free_ordinals(spec, kept, step)
    ]
    table.workers[job_id] = numbered(spec, kept, new)
    table.becauses[job_id] = table.grants[job_id].because
    return True
