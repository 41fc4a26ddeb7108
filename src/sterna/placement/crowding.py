"""Nodes that hold more than they have, because guests came or a card broke: which workers must leave them."""

from collections.abc import Mapping

from sterna.model.ids import JobId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.placement.room import Room
from sterna.placement.shrinking import is_elastic


def crowded_out(
    room: Room, jobs: Mapping[JobId, Job], staying: Mapping[JobId, tuple[Worker, ...]]
) -> dict[JobId, set[Worker]]:
    """Workers that leave overfull nodes, taken out of the room.

    Jobs that come last in `staying`, which is in order of precedence, leave first, highest ordinals first. Fixed roles
    and first workers go only where nothing else is left to go.
    """
    leaving: dict[JobId, set[Worker]] = {}
    for at in room.overfull():
        node = room.frame.nodes[at].id
        here = [
            (precedes, worker.ordinal, job_id, worker)
            for precedes, (job_id, workers) in enumerate(staying.items())
            for worker in workers
            if worker.node == node
        ]
        for _, _, job_id, worker in sorted(here, key=lambda entry: _leaving_order(staying, *entry)):
            spec = jobs[job_id].spec
            if _helps(room, at, spec, worker):
                room.release(spec, (worker,))
                leaving.setdefault(job_id, set()).add(worker)
    return leaving


def _leaving_order(
    staying: Mapping[JobId, tuple[Worker, ...]],
    precedes: int,
    ordinal: int,
    job_id: JobId,
    worker: Worker,
) -> tuple[bool, int, int, str]:
    elastic = [other.ordinal for other in staying[job_id] if is_elastic(other)]
    dear = not is_elastic(worker) or ordinal == min(elastic)
    return (dear, -precedes, -ordinal, worker.role)


def _helps(room: Room, at: int, spec: JobSpec, worker: Worker) -> bool:
    """Would the node be less overfull without this worker?"""
    request = spec.request_of(worker.role)
    return (
        (room.cpu[at] < 0 and request.cpu_milli > 0)
        or (room.memory[at] < 0 and request.memory_bytes > 0)
        or (room.gpus[at] < 0 and request.gpu_milli > 0)
        or any(room.cards.is_card_overdrawn(at, card) for card in worker.devices)
    )
