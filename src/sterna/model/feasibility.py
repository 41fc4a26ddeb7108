"""Could this job start if no other job were there, and what is in the way if not? Exact for one gang (`gangs.py`).

Asked only about jobs that could not be placed: all others have just been placed. Answers are kept with the cluster,
since of thousands of waiting jobs most ask for the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sterna.model.gangs import Gang, Space, gang_fits, gang_of, slots_in, space_of
from sterna.model.ids import NodeId
from sterna.model.jobs import Job, JobSpec
from sterna.model.nodes import Cluster, Doubt, Node
from sterna.model.resources import WHOLE_GPU_MILLI, Currency, Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why

IDLE_CPU_SHARE = 0.5  # of a GPU node, for jobs without GPUs, where there are nodes without GPUs as well
NAMES_MAX = 5  # nodes that are named in a reason

Numbers = tuple[tuple[str, int | float | str], ...]


def too_big_for_pool(view: Snapshot) -> list[Job]:
    """Waiting jobs whose least request is above all that the pool has, guests aside."""
    currency, capacity = view.currency, view.cluster.capacity
    if view.largest_minimum[currency] <= capacity:
        return []
    return [job for job in view.jobs if job.spec.min_request[currency] > capacity and not job.size]


def cannot_start(view: Snapshot, job: Job) -> Because | None:
    """Why the job could not start even if it were alone; None if it could.

    `NeverFits` only if these nodes could not hold it even if all of them were usable and empty. Otherwise what is in
    the way: nodes that refused it lately, other pods, nodes that flap, cordons, or nodes that are not ready.
    """
    return cannot_start_on(view.cluster.bare, job.spec)


def cannot_start_on(cluster: Cluster, spec: JobSpec) -> Because | None:
    """The same for the nodes of this cluster, one pool after the other, as a job lives in one."""
    key = ("cannot start", *asks(spec))
    if key not in cluster.answers:
        cluster.answers[key] = _verdict(cluster, spec)
    return cluster.answers[key]  # type: ignore[return-value]


def asks(spec: JobSpec) -> tuple[object, ...]:
    """What decides where a job's minimum fits: jobs for which this is equal get equal answers."""
    return (spec.request, spec.workers_min, spec.fixed, spec.accelerator, spec.demands)


def admitting(nodes: Iterable[Node], spec: JobSpec) -> list[Node]:
    """Nodes that would take new workers of this job, room aside."""
    return [node for node in nodes if spec.accelerator in (None, node.accelerator) and node.admits(spec.demands)]


def kept_by_doubt(nodes: Iterable[Node], spec: JobSpec) -> Because | None:
    """Nodes that would take workers of this job were there no doubt about them, as a reason. None: there are none."""
    doubted = [node for node in nodes if node.doubt is not None]
    for doubt, why in ((Doubt.FLAPPING, Why.NODES_FLAPPING), (Doubt.NOT_READY, Why.NODES_NOT_READY)):
        found = [node.undoubted for node in doubted if node.doubt is doubt]
        if admitting(found, spec):
            return Because(why, _named(found, spec))
    return None


def what_is_short(spaces: list[Space], gang: Gang) -> Numbers:
    """Why the gang does not fit into these spaces, in the first resource without which it would.

    One worker that fits nowhere is told apart from a gang that is too large in all.
    """
    parts = [gang.request, *(request for request, _ in gang.fixed)]
    alone = next((each for each in parts if not any(slots_in(space, each) for space in spaces)), None)
    asked = gang if alone is None else Gang(alone, 1)
    short = next((kind for kind in _KINDS if gang_fits(spaces, kind.left_out_of(asked))), None)
    kind = short or next((kind for kind in _KINDS if kind.of(asked.total)), _KINDS[-1])
    best = ((f"{kind.name}_on_the_best_node", kind.shown(max((kind.free(space) for space in spaces), default=0))),)
    if alone is not None or kind is _CARD_MEMORY:
        return ((f"{kind.name}_each", kind.shown(kind.of(alone or gang.request))), *best)
    free = sum(kind.free(space) for space in spaces)
    return ((f"{kind.name}_in_all", kind.shown(kind.of(gang.total))), (f"{kind.name}_free", kind.shown(free)), *best)


class _Kind(NamedTuple):
    """One thing that may be short, and how it is shown."""

    name: str
    place: int  # in `Resources`
    unit: int
    free: Callable[[Space], int]

    def of(self, request: Resources) -> int:
        return request[self.place]

    def left_out_of(self, gang: Gang) -> Gang:
        """The same gang, if no member of it asked for this."""
        fixed = tuple((self._left_out(request), replicas) for request, replicas in gang.fixed)
        return Gang(self._left_out(gang.request), gang.workers, fixed)

    def _left_out(self, request: Resources) -> Resources:
        gone = {self.place, 3} if self.place == Currency.GPU else {self.place}  # card memory goes with the card
        return Resources(*(0 if place in gone else amount for place, amount in enumerate(request)))

    def shown(self, amount: int) -> int | float:
        return amount // self.unit if amount % self.unit == 0 else round(amount / self.unit, 3)


_CARD_MEMORY = _Kind("card_gib", 3, 1 << 30, lambda space: max((size for _, size in space.cards), default=0))
_KINDS = (  # in the order in which they are named: what is rarest first
    _CARD_MEMORY,
    _Kind("gpus", 2, WHOLE_GPU_MILLI, lambda space: sum(milli for milli, _ in space.cards)),
    _Kind("cpus", 0, 1000, lambda space: space.cpu_milli),
    _Kind("memory_gib", 1, 1 << 30, lambda space: space.memory_bytes),
)


def _verdict(cluster: Cluster, spec: JobSpec) -> Because | None:
    gang = gang_of(spec)
    if _fits(cluster.nodes, spec, gang):
        return None
    if spec.kept_from:
        anywhere = replace(spec, kept_from=frozenset())
        if _fits(cluster.nodes, anywhere, gang):
            return Because(
                Why.NODES_REFUSED, _named((cluster.by_id[name] for name in _refusing(cluster, spec)), anywhere)
            )
        spec = anywhere
    freed = cluster.freed.by_id
    schedulable = [freed[node.id] for node in cluster.nodes if node.schedulable]
    if _fits(schedulable, spec, gang):
        return Because(Why.OTHER_PODS, what_is_short(_best_pool(cluster.nodes, spec)[1], gang))
    flapping = [node for node in cluster.nodes if node.usable and node.doubt is Doubt.FLAPPING]
    if flapping and _fits([*schedulable, *(freed[node.id] for node in flapping)], spec, gang):
        return Because(Why.NODES_FLAPPING, _named((freed[node.id] for node in flapping), spec))
    silent = {node.id for node in cluster.nodes if not node.ready or node.doubt is Doubt.NOT_READY}
    if _fits([freed[node.id] for node in cluster.nodes if node.id not in silent], spec, gang):
        return Because(Why.NODES_CORDONED, _named((freed[node.id] for node in cluster.nodes if node.cordoned), spec))
    if _fits(cluster.freed.nodes, spec, gang):
        return Because(Why.NODES_NOT_READY, _named((freed[node_id] for node_id in sorted(silent)), spec))
    return Because(Why.NEVER_FITS, _why_never(cluster.freed.nodes, spec, gang))


def _refusing(cluster: Cluster, spec: JobSpec) -> list[NodeId]:
    return sorted(spec.kept_from & cluster.by_id.keys())


def _fits(nodes: Sequence[Node], spec: JobSpec, gang: Gang) -> bool:
    """Is there a pool among these nodes that could hold the gang, were no other job there?"""
    return any(gang_fits([space_of(node) for node in there], gang) for there in _pools(nodes, spec))


def _pools(nodes: Sequence[Node], spec: JobSpec) -> Iterable[list[Node]]:
    """Nodes that admit the job, by accelerator."""
    pools: dict[str, list[Node]] = {}
    for node in admitting(nodes, spec):
        pools.setdefault(node.accelerator, []).append(node)
    return pools.values()


def _best_pool(nodes: Sequence[Node], spec: JobSpec) -> tuple[int, list[Space]]:
    """How many workers fit, one by one, in the pool that takes most of them, and its nodes' spaces."""
    best: tuple[int, list[Space]] = (-1, [])
    for there in _pools(nodes, spec):
        spaces = [space_of(node) for node in there]
        best = max(best, (sum(slots_in(space, spec.request) for space in spaces), spaces), key=lambda found: found[0])
    return best


def _named(nodes: Iterable[Node], spec: JobSpec) -> Numbers:
    names = [node.id for node in admitting(nodes, spec)]
    more = len(names) - NAMES_MAX
    return (("nodes", ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")),)


def _why_never(nodes: Sequence[Node], spec: JobSpec, gang: Gang) -> Numbers:
    numbers: Numbers = (("nodes_that_admit_it", len(admitting(nodes, spec))),)
    count, spaces = _best_pool(nodes, spec)
    if count < 0:
        return numbers
    if count < spec.workers_min:
        numbers = (*numbers, ("workers_needed", spec.workers_min), ("workers_that_fit", count))
    return (*numbers, *what_is_short(spaces, gang))
