"""Putting one job's workers into a room: on one node if they fit there, else on as few as seem enough.

Which job comes first, and which workers stay, is decided by the placements that use this.
"""

from collections.abc import Callable, Mapping, Sequence

from sterna.model.errors import InvariantBroken
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.target import Grant
from sterna.model.why import Because, Why
from sterna.placement.frame import Frame, Mask
from sterna.placement.room import Demand, Room
from sterna.placement.shrinking import ANCHORS, is_elastic, shrunk


def seated(room: Room, spec: JobSpec, kept: tuple[Worker, ...], grant: Grant) -> tuple[Worker, ...] | None:
    """`kept`, which the room holds, and what the grant adds to it: as much as fits, in sizes that the job may have.

    None if that is below the grant's floor; the room is then as if the job were not there.
    """
    if not kept and (workers := _on_one_node(room, spec, grant.workers)):
        return workers
    return _completed(room, spec, kept, grant)


def best_fit_decreasing(
    room: Room,
    specs: Mapping[JobId, JobSpec],
    grants: Mapping[JobId, Grant],
    among_equals: Callable[[JobId], str] = str,
) -> dict[JobId, tuple[Worker, ...]]:
    """All jobs that find room, the largest first; equal ones by id, or as told. The room holds them afterwards."""

    def largest_first(job_id: JobId) -> tuple[int, int, str]:
        needs = specs[job_id].request.times(grants[job_id].workers).plus(specs[job_id].fixed_request)
        return (-needs.gpu_milli, -needs.cpu_milli, among_equals(job_id))

    placed = {job_id: seated(room, specs[job_id], (), grants[job_id]) for job_id in sorted(grants, key=largest_first)}
    return {job_id: workers for job_id, workers in placed.items() if workers}


def spread(room: Room, request: Resources, count: int, mask: Mask, homes: Sequence[int] = ()) -> list[int]:
    """Nodes for `count` workers, which must fit: `homes` first, in their order. Then best fit for all the rest;
    where no node takes all the rest, the node with most slots is filled and the search goes on. The room is not
    changed: the caller takes it.
    """
    nodes: list[int] = []
    slots = room.slots(request, mask).copy()
    for at in homes:
        here = min(count - len(nodes), int(slots[at]))
        nodes += [at] * here
        slots[at] = 0
    free = room.free(request)
    while (left := count - len(nodes)) > 0:
        enough = (slots >= left).nonzero()[0]
        at = int(enough[free[enough].argmin()] if len(enough) else slots.argmax())
        if not slots[at]:
            raise InvariantBroken(f"{left} of {count} workers were said to fit and do not")
        nodes += [at] * min(left, int(slots[at]))
        slots[at] = 0
    return nodes


def homes_of(frame: Frame, workers: Sequence[Worker]) -> list[int]:
    """Nodes that a job's new workers should join: that of its parameter server or chief, then where most of it is."""
    there: dict[int, int] = {}
    anchors: set[int] = set()
    for worker in workers:
        at = frame.index[worker.node]
        there[at] = there.get(at, 0) + 1
        if worker.role in ANCHORS:
            anchors.add(at)
    return sorted(there, key=lambda at: (at not in anchors, -there[at], at))


def numbered(spec: JobSpec, kept: Sequence[Worker], new: Sequence[Worker]) -> tuple[Worker, ...]:
    """All of them in their order: fixed roles as the job lists them, then the others by ordinal."""
    if not kept and not spec.fixed:
        return tuple(new)
    rank = {fixed.role: position for position, fixed in enumerate(spec.fixed)}
    last = len(rank)
    return tuple(sorted((*kept, *new), key=lambda worker: (rank.get(worker.role, last), worker.role, worker.ordinal)))


def free_ordinals(spec: JobSpec, kept: Sequence[Worker], count: int) -> list[int]:
    """The lowest ordinals that no elastic worker has."""
    taken = {worker.ordinal for worker in kept if is_elastic(worker)}
    return [ordinal for ordinal in range(count + len(taken)) if ordinal not in taken][:count]


def nowhere(room: Room, spec: JobSpec, workers: int) -> Because:
    """Why so many workers of this job could not be placed: what they need, and the most that one node has."""
    needs = spec.request.times(workers).plus(spec.fixed_request)
    mask = room.frame.admitting(spec)
    free = room.free(needs) if mask is None else room.free(needs)[mask]
    largest = int(free.max(initial=0))
    numbers: tuple[tuple[str, int | float | str], ...]
    if needs.gpu_milli:
        numbers = (("needs_gpus", _shown(needs.gpu_milli)), ("largest_free_gpus_on_a_node", largest))
    else:
        numbers = (("needs_cpus", _shown(needs.cpu_milli)), ("largest_free_cpus_on_a_node", _shown(largest)))
    return Because(Why.NO_NODE_FITS, numbers)


def on_preferred_node(room: Room, spec: JobSpec, count: int) -> tuple[Worker, ...] | None:
    """A whole new job on the node that its owner would like; None if there is no such wish or it cannot be."""
    at = _preferred(room, spec, _demand(spec, count))
    return None if at is None else _all_at(room, at, spec, count)


def _on_one_node(room: Room, spec: JobSpec, count: int) -> tuple[Worker, ...] | None:
    demand = _demand(spec, count)
    at = _preferred(room, spec, demand)
    if at is None:
        at = _liked(room, spec, demand)
    if at is None:
        at = room.tightest(demand, room.frame.admitting(spec))
    return None if at is None else _all_at(room, at, spec, count)


def _all_at(room: Room, at: int, spec: JobSpec, count: int) -> tuple[Worker, ...]:
    node = room.frame.nodes[at].id
    fixed = [
        Worker(role, ordinal, node, room.take(at, request))
        for role, replicas, request, _ in spec.fixed
        for ordinal in range(replicas)
    ]
    request = spec.request
    return (*fixed, *(Worker(Role.WORKER, ordinal, node, room.take(at, request)) for ordinal in range(count)))


def _demand(spec: JobSpec, count: int) -> Demand:
    if not spec.fixed:
        return ((spec.request, count),)
    return (*((fixed.request, fixed.replicas) for fixed in spec.fixed), (spec.request, count))


def _preferred(room: Room, spec: JobSpec, demand: Demand) -> int | None:
    """The node that the owner names as the one to try first, if it is there and takes everything."""
    if spec.node_preference is None:
        return None
    at = room.frame.index.get(spec.node_preference)
    return at if at is not None and room.frame.admits(at, spec) and room.holds(at, demand) else None


def _liked(room: Room, spec: JobSpec, demand: Demand) -> int | None:
    """Of the nodes that meet a wish of the owner's and take everything, the one that meets most."""
    if not spec.node_wishes:
        return None
    liked = room.frame.liked(spec.node_wishes)
    return next((at for at in liked if room.frame.admits(at, spec) and room.holds(at, demand)), None)


def _completed(room: Room, spec: JobSpec, kept: tuple[Worker, ...], grant: Grant) -> tuple[Worker, ...] | None:
    size = sum(is_elastic(worker) for worker in kept)
    if size == grant.workers and len(kept) == size + spec.fixed_count:
        return kept
    mask = room.frame.admitting(spec)
    fixed = missing_fixed(room, spec, kept, mask)
    fits = 0 if fixed is None else min(grant.workers - size, int(room.slots(spec.request, mask).sum()))
    goal = spec.allowed_size(size + fits)
    if fixed is None or goal < max(1, grant.floor):
        room.release(spec, (*kept, *(fixed or ())))
        return None
    if goal < size:  # what is left of it is between two sizes that it may have
        remaining = shrunk(spec, kept, goal)
        room.release(spec, set(kept).difference(remaining))
        kept, size = remaining, goal
    homes = homes_of(room.frame, (*kept, *fixed))
    nodes = spread(room, spec.request, goal - size, mask, homes)
    return numbered(spec, kept, (*fixed, *_workers(room, spec, kept, nodes)))


def missing_fixed(room: Room, spec: JobSpec, kept: Sequence[Worker], mask: Mask) -> list[Worker] | None:
    """Fixed roles that the job lacks, each in its place: with the rest of the job if it fits there, else where most
    workers fit beside it. None, and nothing taken, if one fits nowhere.
    """
    held = {(worker.role, worker.ordinal) for worker in kept}
    new: list[Worker] = []
    for role, replicas, request, _ in spec.fixed:
        for ordinal in range(replicas):
            if (role, ordinal) in held:
                continue
            homes = homes_of(room.frame, (*kept, *new))
            near = (at for at in homes if (mask is None or mask[at]) and room.slots_at(at, request))
            at = next(near, None)
            if at is None:
                at = room.roomiest(spec.request, mask, beside=request)
            if at is None:
                room.release(spec, new)
                return None
            new.append(Worker(role, ordinal, _id(room, at), room.take(at, request)))
    return new


def _workers(room: Room, spec: JobSpec, kept: Sequence[Worker], nodes: Sequence[int]) -> list[Worker]:
    ordinals = free_ordinals(spec, kept, len(nodes))
    return [
        Worker(Role.WORKER, ordinal, _id(room, at), room.take(at, spec.request))
        for ordinal, at in zip(ordinals, nodes, strict=True)
    ]


def _id(room: Room, at: int) -> NodeId:
    return room.frame.nodes[at].id


def _shown(milli: int) -> int | float:
    return milli / WHOLE_GPU_MILLI if milli % WHOLE_GPU_MILLI else milli // WHOLE_GPU_MILLI
