"""The oracle: can a job start, exactly? By trying every way that makes a difference, in worlds of a handful of nodes.

A job lives in one pool, so all its workers, fixed roles too, are on nodes of one accelerator type. Guests stay where
they are. Sizes: the minimum, and the fixed roles. A search that would take too long raises; it never guesses.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations

from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.nodes import Doubt, Node
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from tests.oracle.rooms import Rooms, empty_rooms, is_gpuless, rooms_beside, taking

Gang = tuple[tuple[Resources, int], ...]  # so many workers of each request

STATES_MAX = 400_000  # of one question; a world that needs more is too large for this oracle
IDLE_CPU_SHARE = 1.0


class TooLarge(Exception):
    """The world is not a small one."""


def in_the_way(view: Snapshot, job: Job, *, idle_cpu_share: float = IDLE_CPU_SHARE) -> Why | None:
    """Why it could not start even with all other jobs gone; None if it could.

    What is in the way is taken away bit by bit, first guests, then what is held against nodes that flap, then cordons,
    then what keeps nodes from being ready: the last thing that had to go is the reason. If it starts not even then, it
    never fits.
    """

    def starts(node_for: Callable[[Node], Node]) -> bool:
        nodes = tuple(node_for(node) for node in view.nodes)
        changed = replace(view, cluster=replace(view.cluster, nodes=nodes))
        return _starts(changed, job.spec, empty_rooms(changed, idle_cpu_share=idle_cpu_share))

    if starts(lambda node: node):
        return None
    if starts(lambda node: replace(node, guests=())):
        return Why.OTHER_PODS
    if starts(lambda node: replace(_steady(node), guests=())):
        return Why.NODES_FLAPPING
    if starts(lambda node: replace(_steady(node), guests=(), cordoned=False)):
        return Why.NODES_CORDONED
    if starts(lambda node: replace(node, guests=(), cordoned=False, ready=True, doubt=None)):
        return Why.NODES_NOT_READY
    return Why.NEVER_FITS


def _steady(node: Node) -> Node:
    return node.undoubted if node.doubt is Doubt.FLAPPING else node


def can_start_beside(view: Snapshot, job: Job, *, idle_cpu_share: float = IDLE_CPU_SHARE) -> bool:
    """Can its minimum run beside everything that runs, each as it is? Workers that are leaving are as good as gone."""
    held = [(other, other.workers) for other in view.jobs if other is not job]
    return _starts(view, job.spec, rooms_beside(view, held, idle_cpu_share=idle_cpu_share))


def can_start_with_others_at_minimum(view: Snapshot, job: Job, *, idle_cpu_share: float = IDLE_CPU_SHARE) -> bool:
    """The same with every other job shrunk to its minimum in place, whichever of its workers stay.

    The first worker and the fixed roles always stay. A job that is between two sizes may shrink to its minimum, one
    that is below it stays as it is. Jobs without GPUs get idle CPUs of nodes with GPUs: where that is limited to a
    share, jobs with GPUs do not shrink for them.
    """
    running = [other for other in view.jobs if other is not job and other.workers]
    firm = [other for other in running if idle_cpu_share < 1 and is_gpuless(job.spec) and not is_gpuless(other.spec)]
    others = [other for other in running if other not in firm]
    least = [(other, other.workers if other in firm else _always_stay(other.workers)) for other in running]
    if not _starts(view, job.spec, rooms_beside(view, least, idle_cpu_share=idle_cpu_share)):
        return False  # not even with fewer than the others' minimum
    if can_start_beside(view, job, idle_cpu_share=idle_cpu_share):
        return True
    tried: set[Rooms] = set()
    for held in _ways_to_shrink(others):
        as_it_is = [(other, other.workers) for other in firm]
        rooms = rooms_beside(view, [*held, *as_it_is], idle_cpu_share=idle_cpu_share)
        if rooms not in tried:
            tried.add(rooms)
            if len(tried) > STATES_MAX:
                raise TooLarge
            if _starts(view, job.spec, rooms):
                return True
    return False


def joint_minimums_fit(view: Snapshot, *, idle_cpu_share: float = IDLE_CPU_SHARE) -> bool:
    """Is there a packing of all jobs' minimums at once, on nodes that hold nobody but guests?"""
    jobs = sorted((job for job in view.jobs if job.wants_workers), key=_largest_first)
    return _Joint(view, [job.spec for job in jobs]).fit(empty_rooms(view, idle_cpu_share=idle_cpu_share), 0)


def gang_of(spec: JobSpec) -> Gang:
    """The least that a job starts with, largest requests first."""
    gang = [(role.request, role.replicas) for role in spec.fixed] + [(spec.request, spec.workers_min)]
    return tuple(sorted(gang, key=lambda each: (-each[0].gpu_milli, -each[0].cpu_milli, -each[0].memory_bytes)))


def pools_for(view: Snapshot, spec: JobSpec) -> list[list[int]]:
    """For each pool that the job may live in, the places of the nodes that admit it."""
    pools = []
    for name in view.cluster.accelerators:
        if spec.accelerator in (None, name):
            nodes = [at for at, node in enumerate(view.nodes) if node.accelerator == name]
            pools.append([at for at in nodes if view.nodes[at].admits(spec.demands)])
    return [pool for pool in pools if pool]


class _Joint:
    """One search for a packing of several jobs; states that lead nowhere are remembered."""

    def __init__(self, view: Snapshot, specs: list[JobSpec]) -> None:
        self._view = view
        self._specs = specs
        self._dead: set[tuple[int, Rooms]] = set()
        needs = [Resources()]
        for spec in reversed(specs):
            needs.insert(0, needs[0].plus(spec.min_request))
        self._needs = needs  # of this job and all after it

    def fit(self, rooms: Rooms, at: int) -> bool:
        if at == len(self._specs):
            return True
        if (at, rooms) in self._dead or not self._enough(rooms, at):
            return False
        spec = self._specs[at]
        for pool in pools_for(self._view, spec):
            for after in placements(rooms, gang_of(spec), pool, gpuless=is_gpuless(spec)):
                if self.fit(after, at + 1):
                    return True
        self._dead.add((at, rooms))
        if len(self._dead) > STATES_MAX:
            raise TooLarge
        return False

    def _enough(self, rooms: Rooms, at: int) -> bool:
        needs = self._needs[at]
        return (
            sum(room.cpu for room in rooms) >= needs.cpu_milli
            and sum(room.memory for room in rooms) >= needs.memory_bytes
            and sum(milli for room in rooms for milli, _ in room.cards) >= needs.gpu_milli
        )


def placements(rooms: Rooms, gang: Gang, nodes: list[int], *, gpuless: bool) -> Iterator[Rooms]:
    """Every different outcome of placing this gang on these nodes."""
    seen: set[tuple[int, int, int, Rooms]] = set()

    def place(rooms: Rooms, part: int, left: int, first: int) -> Iterator[Rooms]:
        """Workers with one request are alike, so they go to nodes in ascending order."""
        while not left:
            part += 1
            if part == len(gang):
                yield rooms
                return
            left, first = gang[part][1], 0
        key = (part, left, first, rooms)
        if key in seen:
            return
        seen.add(key)
        if len(seen) > STATES_MAX:
            raise TooLarge
        for position in range(first, len(nodes)):
            at = nodes[position]
            for room in taking(rooms[at], gang[part][0], gpuless=gpuless):
                yield from place((*rooms[:at], room, *rooms[at + 1 :]), part, left - 1, position)

    return place(rooms, -1, 0, 0)


def _starts(view: Snapshot, spec: JobSpec, rooms: Rooms) -> bool:
    return any(
        True for pool in pools_for(view, spec) for _ in placements(rooms, gang_of(spec), pool, gpuless=is_gpuless(spec))
    )


def _always_stay(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    elastic = [worker for worker in workers if worker.role is Role.WORKER]
    first = min(elastic, key=lambda worker: worker.ordinal, default=None)
    return tuple(worker for worker in workers if worker.role is not Role.WORKER or worker is first)


def _ways_to_shrink(jobs: list[Job]) -> Iterator[list[tuple[Job, tuple[Worker, ...]]]]:
    if not jobs:
        yield []
        return
    job, *rest = jobs
    stay = _always_stay(job.workers)
    others = [worker for worker in job.workers if worker not in stay]
    also = min(len(others), max(0, job.spec.workers_min - 1))
    for ways in _ways_to_shrink(rest):
        for chosen in combinations(others, also):
            yield [(job, (*stay, *chosen)), *ways]


def _largest_first(job: Job) -> tuple[int, int, int, str]:
    needs = job.spec.min_request
    return (-needs.gpu_milli, -needs.cpu_milli, -needs.memory_bytes, job.id)
