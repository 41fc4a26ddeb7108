"""What would have to change for a job that waits, in words: by the reason it was given, and by what it lacks."""

from collections.abc import Iterable, Mapping

from sterna.model.jobs import JobSpec
from sterna.model.nodes import Node
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.why import Why

SOONER: Mapping[Why, str] = {
    Why.NO_ROOM: "a job ahead of it ends or gets fewer workers",
    Why.BEHIND_HEAD: "the job at the head of the queue starts, or is deleted",
    Why.LOWER_QUEUE: "jobs in the higher queue end",
    Why.NO_NODE_FITS: "room becomes free on one node, or its workers get smaller",
    Why.NEVER_FITS: "its workers or their minimum get smaller, or larger nodes join",
    Why.OTHER_PODS: "those pods leave, or its workers get smaller",
    Why.NODES_CORDONED: "one of these nodes is uncordoned, or another one joins",
    Why.NODES_NOT_READY: "one of these nodes comes back, or another one joins",
    Why.NODES_REFUSED: "one of these nodes is tried again, or another one joins; their events say why they refused",
    Why.NODES_FLAPPING: "one of these nodes has been steady for some minutes, or another one joins",
    Why.ADMISSION_DENIED: "the quota is raised or used less, the policy changes, or its owner edits the job",
    Why.SCHEDULING_GATED: "the gates are removed from its pod templates",
    Why.VOLUMES_NOT_READY: "the claim is bound to a volume, or its workers mount another one",
    Why.WHOLE_SIZE: "so much room becomes free at once, its size gets smaller, or the policy is an elastic one",
    Why.RESERVED: "the job that the room is kept for has started",
    Why.SCALED_BY_OWNER: "its owner raises its largest size again",
    Why.SUSPENDED: "its owner resumes it",
    Why.NODE_LOST: "the node comes back, or room becomes free elsewhere",
    Why.NODE_DRAINED: "the node is uncordoned, or room becomes free elsewhere",
}


def shortage(spec: JobSpec, rooms: Iterable[tuple[Node, Resources]]) -> list[str]:
    """What it needs at least, beside what the roomiest node has free. Nothing, where there is no node."""
    best = max(rooms, key=lambda pair: (pair[1].gpu_milli, pair[1].cpu_milli, pair[0].id), default=None)
    if best is None:
        return []
    node, room = best
    needs = f"{spec.workers_min} worker{'s' if spec.workers_min != 1 else ''} of {_amount(spec.request)} each"
    state = "" if node.schedulable else ", which is not schedulable"
    return [f"it needs {needs}; of all nodes {node.id} has most free: {_amount(room)}{state}"]


def _amount(request: Resources) -> str:
    parts = []
    if request.gpu_milli:
        parts.append(f"{max(0, request.gpu_milli) / WHOLE_GPU_MILLI:g} GPU")
    if request.cpu_milli:
        parts.append(f"{max(0, request.cpu_milli) / 1000:g} CPU")
    if request.memory_bytes:
        parts.append(f"{max(0, request.memory_bytes) / 2**30:.1f} GiB")
    return ", ".join(parts) or "nothing in particular"
