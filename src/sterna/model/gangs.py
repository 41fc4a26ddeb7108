"""Does the least that a job starts with fit on these nodes? Exact, for one job at a time, cards and fixed roles too.

A gang is a job's minimum and its fixed roles, on nodes of one pool. A space is what one node has left: CPU, memory and
what is free of each card. Workers are alike, so on one node a count says it all; fixed roles compete with them, so
nodes are walked with a table from "so many of each fixed role are placed" to the most workers beside them. Equal nodes
are walked together, and the walk ends as soon as the gang is placed: a thousand nodes cost little.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.nodes import Node, cards
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

Card = tuple[int, int]  # free thousandths, free bytes

ENDLESS = 1 << 30  # workers that ask for nothing fit so often
_UNKNOWN_BYTES = 1 << 62  # of a card whose memory is not known


class Space(NamedTuple):
    """What one node has left."""

    cpu_milli: int
    memory_bytes: int
    cards: tuple[Card, ...]  # sorted: which of two equal cards is taken does not matter


class Gang(NamedTuple):
    """What must be placed together, all of it or nothing."""

    request: Resources  # of one elastic worker
    workers: int
    fixed: tuple[tuple[Resources, int], ...] = ()  # requests and replicas

    @property
    def total(self) -> Resources:
        total = self.request.times(self.workers)
        for request, replicas in self.fixed:
            total = total.plus(request.times(replicas))
        return total


def gang_of(spec: JobSpec, workers: int | None = None) -> Gang:
    """So many workers of a job, its minimum if nothing is said, and its fixed roles."""
    size = spec.workers_min if workers is None else workers
    return Gang(spec.request, size, tuple((role.request, role.replicas) for role in spec.fixed if role.replicas))


def gang_fits(spaces: Iterable[Space], gang: Gang) -> bool:
    """Is there a way to put all of the gang into these spaces?"""
    groups = [(space, count, slots_in(space, gang.request)) for space, count in Counter(spaces).items()]
    alone = sum(count * slots for _, count, slots in groups)
    if alone < gang.workers:
        return False
    return not gang.fixed or _fits_beside_fixed(groups, gang, alone)


def slots_in(space: Space, request: Resources) -> int:
    """How many such workers fit here, beside nothing else."""
    cpu, memory, milli, gpu_bytes = request
    fit = ENDLESS
    if cpu:
        fit = space.cpu_milli // cpu
    if memory:
        fit = min(fit, space.memory_bytes // memory)
    if fit > 0 and milli % WHOLE_GPU_MILLI:
        shares = (min(free // milli, size // gpu_bytes if gpu_bytes else ENDLESS) for free, size in space.cards)
        fit = min(fit, sum(each for each in shares if each > 0))
    elif fit > 0 and milli:
        fit = min(fit, sum(free == WHOLE_GPU_MILLI for free, _ in space.cards) // (milli // WHOLE_GPU_MILLI))
    return max(0, fit)


def space_of(node: Node, held: Iterable[tuple[Resources, tuple[DeviceId, ...]]] = ()) -> Space:
    """What guests and these workers leave of a node; nothing, where they took more than there is.

    A guest or worker that holds GPUs without saying which is counted, and taken to be on the cards with least memory.
    """
    cpu, memory = node.allocatable[:2]
    devices_here = node.devices or cards(node.allocatable.whole_gpus)
    free = {card.id: [WHOLE_GPU_MILLI, card.memory_bytes or _UNKNOWN_BYTES] for card in devices_here}
    nameless = max(0, len(free) - node.allocatable.whole_gpus) * WHOLE_GPU_MILLI  # cards that are not on offer
    for request, devices in (*((guest.request, guest.devices) for guest in node.guests), *held):
        cpu -= request.cpu_milli
        memory -= request.memory_bytes
        milli = request.gpu_milli
        if milli and not any(card in free for card in devices):
            nameless += milli
        elif milli:
            for card in devices:
                if card in free:
                    free[card][0] -= min(milli, WHOLE_GPU_MILLI)
                    free[card][1] -= request.gpu_bytes if request.shares_gpu else 0
    left = sorted((max(0, milli), max(0, size)) for milli, size in free.values())
    if nameless:
        wholly = [card for card in left if card[0] == WHOLE_GPU_MILLI]
        taken = min(-(-nameless // WHOLE_GPU_MILLI), len(wholly))
        left = sorted([card for card in left if card[0] < WHOLE_GPU_MILLI] + [(0, 0)] * taken + wholly[taken:])
    return Space(max(0, cpu), max(0, memory), tuple(left))


def spaces_beside(nodes: Iterable[Node], jobs: Iterable[tuple[Job, tuple[Worker, ...]]]) -> dict[NodeId, Space]:
    """What these workers leave of each node."""
    held: dict[NodeId, list[tuple[Resources, tuple[DeviceId, ...]]]] = {}
    for job, workers in jobs:
        spec = job.spec
        for worker in workers:
            request = spec.request_of(worker.role) if spec.fixed else spec.request
            held.setdefault(worker.node, []).append((request, worker.devices))
    return {node.id: space_of(node, held.get(node.id, ())) for node in nodes}


def _fits_beside_fixed(groups: list[tuple[Space, int, int]], gang: Gang, alone: int) -> bool:
    """`best` says how many workers fit on the nodes walked so far, for each way to have placed fixed roles there."""
    replicas = tuple(count for _, count in gang.fixed)
    best: dict[tuple[int, ...], int] = {(0,) * len(replicas): 0}
    to_come = alone
    for space, count, slots in sorted(groups, reverse=True):
        ways = _ways_to_hold(space, gang)
        walked = min(count, sum(replicas)) if len(ways) > 1 else 0  # more of them cannot all have a fixed role
        for _ in range(walked):
            best = _joined(best, ways, replicas, gang.workers)
            to_come -= slots
            if best.get(replicas, -ENDLESS) + to_come >= gang.workers:
                return True
        rest = (count - walked) * slots
        best = {placed: min(gang.workers, workers + rest) for placed, workers in best.items()}
        to_come -= rest
    return best.get(replicas, -1) >= gang.workers


def _joined(
    best: Mapping[tuple[int, ...], int],
    ways: Mapping[tuple[int, ...], int],
    replicas: tuple[int, ...],
    enough: int,
) -> dict[tuple[int, ...], int]:
    """The table after one more node."""
    after: dict[tuple[int, ...], int] = {}
    for before, workers in best.items():
        for here, beside in ways.items():
            placed = tuple(map(sum, zip(before, here, strict=True)))
            if all(have <= most for have, most in zip(placed, replicas, strict=True)):
                after[placed] = max(after.get(placed, 0), min(enough, workers + beside))
    return after


@lru_cache(maxsize=8192)
def _ways_to_hold(space: Space, gang: Gang) -> dict[tuple[int, ...], int]:
    """For every number of each fixed role that one node can hold: the most workers beside them."""
    ways: dict[tuple[int, ...], int] = {}

    def place(spaces: frozenset[Space], counts: tuple[int, ...]) -> None:
        if len(counts) == len(gang.fixed):
            ways[counts] = max(slots_in(left, gang.request) for left in spaces)
            return
        request, replicas = gang.fixed[len(counts)]
        for count in range(replicas + 1):
            place(spaces, (*counts, count))
            spaces = frozenset(after for left in spaces for after in _taking(left, request))
            if not spaces:
                return

    place(frozenset({space}), ())
    return ways


def _taking(space: Space, request: Resources) -> Iterator[Space]:
    """This space after one more worker, in every way that makes a difference to the next worker."""
    cpu, memory = space.cpu_milli - request.cpu_milli, space.memory_bytes - request.memory_bytes
    if cpu < 0 or memory < 0:
        return
    for left in _taking_cards(space.cards, request):
        yield Space(cpu, memory, left)


def _taking_cards(free: tuple[Card, ...], request: Resources) -> Iterator[tuple[Card, ...]]:
    milli, gpu_bytes = request.gpu_milli, request.gpu_bytes
    if request.shares_gpu:
        for at, (have, size) in enumerate(free):
            if have >= milli and size >= gpu_bytes and (have, size) not in free[:at]:
                yield tuple(sorted((*free[:at], (have - milli, size - gpu_bytes), *free[at + 1 :])))
    else:
        yield from _taking_whole(free, milli // WHOLE_GPU_MILLI)


def _taking_whole(free: tuple[Card, ...], count: int) -> Iterator[tuple[Card, ...]]:
    if not count:
        yield tuple(sorted(free))
        return
    for at, card in enumerate(free):
        if card[0] == WHOLE_GPU_MILLI and card not in free[:at]:
            for rest in _taking_whole(free[at + 1 :], count - 1):
                yield tuple(sorted((*free[:at], (0, card[1]), *rest)))
