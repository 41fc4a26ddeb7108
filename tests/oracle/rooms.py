"""The room on the nodes of a small world, as plain numbers: written apart from `placement/room.py`, to check it.

A node is a tuple of its free CPU and memory, its cards (free thousandths and free bytes each, in any order), and what
jobs without GPUs may still take of it where it has GPUs. Rooms are values: taking something gives other rooms.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.nodes import Node, cards
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot

WITHOUT_LIMIT = 1 << 60
Card = tuple[int, int]  # free thousandths, free bytes


class Room(NamedTuple):
    """What one node still has."""

    cpu: int
    memory: int
    cards: tuple[Card, ...]  # sorted: which of two equal cards somebody is on does not matter
    cpu_for_gpuless: int  # what jobs that ask for no GPU may take here at most
    memory_for_gpuless: int


Rooms = tuple[Room, ...]  # in the order of the snapshot's nodes


def is_gpuless(spec: JobSpec) -> bool:
    return not spec.min_request.gpu_milli


def empty_rooms(view: Snapshot, *, idle_cpu_share: float) -> Rooms:
    """The nodes with nobody but their guests on them."""
    return tuple(_left_by_guests(node, idle_cpu_share) for node in view.nodes)


def rooms_beside(view: Snapshot, held: Iterable[tuple[Job, tuple[Worker, ...]]], *, idle_cpu_share: float) -> Rooms:
    """The nodes with guests and these workers on them."""
    named = {node.id: _named_cards(node) for node in view.nodes}
    cpu, memory = ({node.id: node.allocatable[each] for node in view.nodes} for each in (0, 1))
    limits = {node.id: _limits(node, idle_cpu_share) for node in view.nodes}
    for node in view.nodes:
        for guest in node.guests:
            cpu[node.id] -= guest.request.cpu_milli
            memory[node.id] -= guest.request.memory_bytes
            _hold_cards(named[node.id], guest.request, guest.devices)
    for job, workers in held:
        for worker in workers:
            if worker.node not in named:
                continue  # the node is gone, and whatever was there with it
            request = job.spec.request_of(worker.role)
            cpu[worker.node] -= request.cpu_milli
            memory[worker.node] -= request.memory_bytes
            if is_gpuless(job.spec):
                limit = limits[worker.node]
                limits[worker.node] = (limit[0] - request.cpu_milli, limit[1] - request.memory_bytes)
            _hold_cards(named[worker.node], request, worker.devices)
    return tuple(
        Room(max(0, cpu[n]), max(0, memory[n]), tuple(sorted(named[n].values())), *(max(0, each) for each in limits[n]))
        for n in (node.id for node in view.nodes)
    )


def taking(room: Room, request: Resources, *, gpuless: bool) -> Iterator[Room]:
    """This node after one more worker, in every way that makes a difference; none if there is no room."""
    cpu, memory = room.cpu - request.cpu_milli, room.memory - request.memory_bytes
    cpu_limit, memory_limit = room.cpu_for_gpuless, room.memory_for_gpuless
    if gpuless:
        cpu_limit, memory_limit = cpu_limit - request.cpu_milli, memory_limit - request.memory_bytes
    if min(cpu, memory, cpu_limit, memory_limit) < 0:
        return
    for left in _taking_cards(room.cards, request):
        yield Room(cpu, memory, left, cpu_limit, memory_limit)


def _taking_cards(free: tuple[Card, ...], request: Resources) -> Iterator[tuple[Card, ...]]:
    if not request.gpu_milli:
        yield free
    elif not request.shares_gpu:
        yield from _taking_whole(free, request.gpu_milli // WHOLE_GPU_MILLI)
    else:
        for at, (milli, size) in enumerate(free):
            if milli >= request.gpu_milli and size >= request.gpu_bytes and free[at] not in free[:at]:
                left = (milli - request.gpu_milli, size - request.gpu_bytes)
                yield tuple(sorted((*free[:at], left, *free[at + 1 :])))


def _taking_whole(free: tuple[Card, ...], count: int) -> Iterator[tuple[Card, ...]]:
    """Every way to take so many wholly free cards. Their memory does not matter to the taker, but to who comes next."""
    if not count:
        yield tuple(sorted(free))
        return
    tried: set[Card] = set()
    for at, card in enumerate(free):
        if card[0] == WHOLE_GPU_MILLI and card not in tried:
            tried.add(card)
            for rest in _taking_whole(free[at + 1 :], count - 1):
                yield tuple(sorted((*free[:at], (0, card[1]), *rest)))


def _left_by_guests(node: Node, idle_cpu_share: float) -> Room:
    named = _named_cards(node)
    cpu, memory = node.allocatable[:2]
    for guest in node.guests:
        cpu -= guest.request.cpu_milli
        memory -= guest.request.memory_bytes
        _hold_cards(named, guest.request, guest.devices)
    return Room(max(0, cpu), max(0, memory), tuple(sorted(named.values())), *_limits(node, idle_cpu_share))


def _limits(node: Node, idle_cpu_share: float) -> tuple[int, int]:
    if not node.allocatable.gpu_milli:
        return WITHOUT_LIMIT, WITHOUT_LIMIT
    return int(node.allocatable.cpu_milli * idle_cpu_share), int(node.allocatable.memory_bytes * idle_cpu_share)


def _named_cards(node: Node) -> dict[str, Card]:
    devices = node.devices or cards(node.allocatable.whole_gpus)
    return {device.id: (WHOLE_GPU_MILLI, device.memory_bytes or WITHOUT_LIMIT) for device in devices}


def _hold_cards(named: dict[str, Card], request: Resources, devices: tuple[str, ...]) -> None:
    """Take from these cards; whoever names none takes free ones, which is exact where all cards are alike."""
    if not request.gpu_milli:
        return
    if request.shares_gpu:
        (card,) = devices  # a share always says of which card it is
        milli, size = named[card]
        named[card] = (milli - request.gpu_milli, size - request.gpu_bytes)
        return
    count = request.gpu_milli // WHOLE_GPU_MILLI
    assert devices or len(set(named.values())) <= 2, "who holds cards without naming them is only counted"
    free = [card for card, (milli, _) in named.items() if milli == WHOLE_GPU_MILLI]
    for card in devices or free[:count]:
        if card in named:
            named[card] = (0, named[card][1])
