"""Can this job ever start? Looked at only for jobs that could not be placed: everybody else has just proved it."""

from sterna.model.jobs import Job
from sterna.model.nodes import Node
from sterna.model.resources import WHOLE_GPU_MILLI, Currency, Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why


def too_big_for_pool(view: Snapshot) -> list[Job]:
    """Waiting jobs whose least request is above all that the pool has, guests aside."""
    currency, capacity = view.currency, view.cluster.capacity
    if view.largest_minimum[currency] <= capacity:
        return []
    return [job for job in view.jobs if job.spec.min_request[currency] > capacity and not job.size]


def never_fits(view: Snapshot, job: Job) -> Because | None:
    """A verdict with the resource that is short, if even an empty pool could not hold the job; None if one could."""
    spec = job.spec
    nodes = [
        node
        for node in view.nodes
        if spec.accelerator in (None, node.accelerator) and node.admits(spec.tolerations, spec.selector)
    ]
    slots = sum(slots_on(node, spec.request) for node in nodes)
    if slots >= spec.workers_min and all(
        sum(slots_on(node, role.request) for node in nodes) >= role.replicas for role in spec.fixed
    ):
        return None
    return Because(Why.NEVER_FITS, _shortage(nodes, job, slots, view.currency))


def slots_on(node: Node, request: Resources) -> int:
    """How many such workers an otherwise empty node holds beside its guests."""
    room = node.free_of_guests
    counts = [have // take for have, take in zip(room[:2], request[:2], strict=True) if take]
    if request.shares_gpu:
        if any(card.memory_bytes and request.gpu_bytes > card.memory_bytes for card in node.devices[:1]):
            return 0
        counts.append(room.gpu_milli // WHOLE_GPU_MILLI * (WHOLE_GPU_MILLI // request.gpu_milli))
    elif request.gpu_milli:
        counts.append(room.gpu_milli // request.gpu_milli)
    return min(counts, default=1 << 30)  # a worker that asks for nothing fits any number of times


def _shortage(nodes: list[Node], job: Job, slots: int, currency: Currency) -> tuple[tuple[str, int | float | str], ...]:
    spec = job.spec
    most = Resources(*(max((node.free_of_guests[each] for node in nodes), default=0) for each in range(4)))
    short = next((each for each in (2, 1, 0) if spec.request[each] > most[each]), int(currency))  # GPUs first
    what = Resources._fields[short]
    return (
        ("nodes_that_admit_it", len(nodes)),
        ("workers_needed", spec.workers_min),
        ("workers_that_fit_there_beside_guests", slots),
        (f"{what}_each", spec.request[short]),
        (f"{what}_on_the_largest_of_them", most[short]),
    )
