"""Seats once a packing is bound to nodes: of workers that stay, workers that move and new workers, and their cards."""

from collections.abc import Mapping
from typing import NamedTuple

from sterna.model.errors import InvariantBroken
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.placement.binding import Placed
from sterna.placement.packing import numbered
from sterna.placement.room import Room


class DealtSeat(NamedTuple):
    job_id: JobId
    worker: Worker
    stays: bool  # it is there already, and would like to keep its cards


def dealt(
    room: Room, specs: Mapping[JobId, JobSpec], packing: Placed, now: Placed, binding: Mapping[int, int]
) -> dict[JobId, tuple[Worker, ...]]:
    """The packing on the nodes it is bound to, with as many workers of `now` as possible in their places.

    Where shares of cards do not work out on a node that plays another's part, every node plays its own.
    """
    for nodes in (binding, {at: at for at in binding}):
        seats = [seat for job_id in packing for seat in _seats(room, job_id, packing, now, nodes)]
        workers = _with_cards(room.copy(), specs, seats)
        if workers is not None:
            return {job_id: numbered(specs[job_id], workers[job_id], ()) for job_id in packing}
    raise InvariantBroken("a packing does not fit on the very nodes it was made for")


def _seats(room: Room, job_id: JobId, packing: Placed, now: Placed, binding: Mapping[int, int]) -> list[DealtSeat]:
    """Seats of one job, role by role. On each node the lowest ordinals stay; of those that must move the lowest take
    the first free seats; newcomers take the lowest free ordinals.
    """
    frame = room.frame
    places: dict[Role, list[NodeId]] = {}
    for worker in packing[job_id]:
        node = frame.nodes[binding[frame.index[worker.node]]].id
        places.setdefault(worker.role, []).append(node)
    seats: list[DealtSeat] = []
    for role, nodes in places.items():
        here = sorted((worker for worker in now[job_id] if worker.role is role), key=lambda worker: worker.ordinal)
        stays: list[Worker] = []
        for worker in here:
            if worker.node in nodes:
                nodes.remove(worker.node)
                stays.append(worker)
        moving = [worker.ordinal for worker in here if worker not in stays]
        taken = {worker.ordinal for worker in here}
        fresh = [ordinal for ordinal in range(len(nodes) + len(taken)) if ordinal not in taken]
        seats += [DealtSeat(job_id, worker, True) for worker in stays]
        seats += [
            DealtSeat(job_id, Worker(role, ordinal, node), False)
            for ordinal, node in zip(moving + fresh, nodes, strict=False)
        ]
    return seats


def _with_cards(room: Room, specs: Mapping[JobId, JobSpec], seats: list[DealtSeat]) -> dict[JobId, list[Worker]] | None:
    """The workers of every job with their cards; None if those of some node do not fit on its cards."""
    by_node: dict[int, list[DealtSeat]] = {}
    for seat in seats:
        by_node.setdefault(room.frame.index[seat.worker.node], []).append(seat)
    workers: dict[JobId, list[Worker]] = {}
    for at, here in by_node.items():
        there = _on_node(room, at, specs, here, keep=True) or _on_node(room, at, specs, here, keep=False)
        if there is None:
            return None
        for seat, worker in there:
            workers.setdefault(seat.job_id, []).append(worker)
    return workers


def _on_node(
    room: Room, at: int, specs: Mapping[JobId, JobSpec], seats: list[DealtSeat], *, keep: bool
) -> list[tuple[DealtSeat, Worker]] | None:
    """All of them on this node, those that stay on the cards they have if `keep`. None, and none there, if it fails."""
    done: list[tuple[DealtSeat, Worker]] = []
    for seat in sorted(seats, key=lambda seat: not seat.stays) if keep else seats:
        request = specs[seat.job_id].request_of(seat.worker.role)
        if keep and seat.stays:
            room.occupy(at, request, seat.worker.devices)
            done.append((seat, seat.worker))
        elif room.slots_at(at, request):
            done.append((seat, seat.worker._replace(devices=room.take(at, request))))
        else:
            break
    if len(done) == len(seats) and not room.is_overfull(at):
        return done
    for seat, worker in done:
        room.release(specs[seat.job_id], (worker,))
    return None
