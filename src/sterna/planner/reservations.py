"""Room kept for a job that has waited too long, so that others cannot starve it; it binds the policy as well.

The job that has waited longest is the head. If its minimum fits beside what the policy lets run on, it starts, whatever
the policy thinks of it, and the policy shares out what is left. If not, nodes are set aside for it: they take no
other new workers, those that run there may finish, and the policy may not count on what is free there. Once the head
runs, it keeps its minimum for `starving_after_s`, so that its start is not taken back a cycle later.

Nodes are chosen so that the head's whole gang fits on them once they are empty, emptiest first, so the choice stays the
same from cycle to cycle while they drain.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from sterna.model.feasibility import admitting, cannot_start
from sterna.model.gangs import gang_fits, gang_of, slots_in, space_of, spaces_beside
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Effect, Taint, Toleration
from sterna.model.snapshot import Snapshot, arrival_order
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import Because, Why
from sterna.placement.ruled_start import seats_at_least
from sterna.placement.shrinking import shrunk

Sizing = Callable[[Snapshot], Target]

RESERVED = Taint("sterna.dev/reserved", "", Effect.NO_SCHEDULE)
MEMORY = "let-in/"  # and a job's id: it was the head when it started


@dataclass(frozen=True, slots=True)
class Reservation:
    """One pool as it is decided with a head, or with jobs that have been one."""

    view: Snapshot  # with nodes set aside, and without what only this module remembers
    size: Sizing  # the policy, bound
    head: JobId | None
    waits: bool  # nodes are set aside, as the head cannot start yet
    wake_s: float | None  # when a job will have waited too long, or have run long enough
    favoured: tuple[JobId, ...]

    def remembered(self, memory: PolicyMemory, layout: Layout) -> PolicyMemory:
        """The policy's memory, and which jobs were let in."""
        let_in = [*self.favoured, *([] if self.head is None else [self.head])]
        names = {f"{MEMORY}{job_id}": 1.0 for job_id in let_in if layout.workers_of(job_id)}
        return replace(memory, values={**memory.values, **names}) if names else memory


def with_reservation(view: Snapshot, size: Sizing, starving_after_s: float, *, counted: bool) -> Reservation:
    """The pool and the policy, with the head's minimum and that of those let in before it ahead of everything else."""
    names = {key.removeprefix(MEMORY) for key in view.memory.values if key.startswith(MEMORY)}
    favoured = [job for job in view.jobs if job.id in names and _is_new_here(job, view.now_s, starving_after_s)]
    memory = replace(view.memory, values={k: v for k, v in view.memory.values.items() if not k.startswith(MEMORY)})
    view = replace(view, memory=memory) if names else view
    wake_s = _next_moment(view, favoured, starving_after_s)
    head = starving_head(view, starving_after_s)
    ids = tuple(job.id for job in favoured)
    if head is None:
        bound = _bound(size, favoured, reserved=0) if favoured else size
        return Reservation(view, bound, None, False, wake_s, ids)
    staying = _staying(view, _bound(size, favoured, reserved=0)(view), head)
    if _starts(view, head, staying, counted=counted):
        wake_s = min(view.now_s + starving_after_s, wake_s if wake_s is not None else inf)
        return Reservation(view, _bound(size, [*favoured, head], reserved=0), head.id, False, wake_s, ids)
    aside = _nodes_for(view, head)
    reserved = _free(view, aside, staying, counted=counted)
    bound = _bound(size, favoured, reserved=reserved, without=head)
    return Reservation(_set_aside(view, head, aside), bound, head.id, True, wake_s, ids)


def starving_head(view: Snapshot, starving_after_s: float) -> Job | None:
    """The job that has waited longest, if that is too long and it could start at all."""
    waiting = [job for job in view.wanting if not job.size and job.waited_s(view.now_s) >= starving_after_s]
    waiting.sort(key=lambda job: (job.waiting_since_s, arrival_order(job)))
    return next((job for job in waiting if cannot_start(view, job) is None and _could_obey(view, job)), None)


def _could_obey(view: Snapshot, job: Job) -> bool:
    """Would rules between pods let it start, were no other job there? If not, no room is kept for it."""
    around = view.neighbourhood
    if around is None or not around.relates(job.spec):
        return True
    return seats_at_least(around, view.cluster, job.spec) is not None


def _is_new_here(job: Job, now_s: float, starving_after_s: float) -> bool:
    return job.size > 0 and job.wants_workers and now_s < job.seat_s + starving_after_s


def _next_moment(view: Snapshot, favoured: list[Job], starving_after_s: float) -> float | None:
    moments = [job.waiting_since_s for job in view.wanting if not job.size and job.waiting_since_s is not None]
    moments += [job.seat_s for job in favoured]
    due = (moment + starving_after_s for moment in moments)
    return min((moment for moment in due if moment > view.now_s), default=None)


def _bound(size: Sizing, first: list[Job], *, reserved: int, without: Job | None = None) -> Sizing:
    """The policy, with the minimum of these jobs ahead of everything, and so much room left alone.

    What the policy gives them anyway it gives them; where it would not, it shares out the rest without them. `without`
    takes part only if the policy itself would let it start.
    """

    def sized(view: Snapshot) -> Target:
        jobs = view.by_id
        target = size(view)
        missing = [job for job in first if job.id in jobs and target.workers_of(job.id) < job.spec.workers_min]
        head_starts = without is not None and target.workers_of(without.id) >= without.spec.workers_min
        kept_back = 0 if head_starts else reserved
        if missing or kept_back:
            gone = {job.id for job in missing} | ({without.id} if without is not None and not head_starts else set())
            taken = sum(job.spec.min_request[view.currency] for job in missing)
            others = tuple(job for job in view.jobs if job.id not in gone)
            target = size(replace(view, jobs=others, reserved=view.reserved + taken + kept_back))
        ahead = {job.id: target.grants.get(job.id) or _least(job) for job in first if job.id in jobs}
        if without is not None and (grant := target.grants.get(without.id)) is not None:
            ahead[without.id] = grant
        rest = {job_id: grant for job_id, grant in target.grants.items() if job_id not in ahead}
        return replace(target, grants={**ahead, **rest})

    return sized


def _least(job: Job) -> Grant:
    least = job.spec.workers_min
    return Grant(least, least, _STARVING)


_STARVING = Because(Why.STARVING)


def _staying(view: Snapshot, target: Target, head: Job) -> list[tuple[Job, tuple[Worker, ...]]]:
    """The workers that the policy lets run on, where they are."""
    return [
        (job, shrunk(job.spec, job.workers, grant.workers))
        for job in view.holding
        if job.workers and job is not head and (grant := target.grants.get(job.id)) is not None
    ]


def _starts(view: Snapshot, head: Job, staying: list[tuple[Job, tuple[Worker, ...]]], *, counted: bool) -> bool:
    if counted:
        return head.spec.min_request[view.currency] <= _free(view, set(), staying, counted=True)
    around = view.neighbourhood
    if around is not None and around.relates(head.spec):
        return seats_at_least(around, view.cluster, head.spec, staying) is not None
    nodes = admitting(view.nodes, head.spec)
    spaces = spaces_beside(nodes, staying)
    return gang_fits([spaces[node.id] for node in nodes], gang_of(head.spec))


def _free(view: Snapshot, aside: set[NodeId], staying: list[tuple[Job, tuple[Worker, ...]]], *, counted: bool) -> int:
    """What is left of these nodes, in the currency; of all nodes, where nodes do not matter."""
    currency = view.currency
    nodes = [node for node in view.nodes if node.usable and (counted or node.id in aside)]
    held = sum(
        job.spec.request_of(worker.role)[currency]
        for job, workers in staying
        for worker in workers
        if counted or worker.node in aside
    )
    return max(0, sum(node.free_of_guests[currency] for node in nodes) - held)


def _set_aside(view: Snapshot, head: Job, aside: set[NodeId]) -> Snapshot:
    """The same world with these nodes kept for `head`, which alone is let in."""
    nodes = (replace(node, taints=(*node.taints, RESERVED)) if node.id in aside else node for node in view.nodes)
    pass_key = Toleration(RESERVED.key, RESERVED.value, RESERVED.effect)
    spec = replace(head.spec, tolerations=(*head.spec.tolerations, pass_key))
    jobs = tuple(job.but(spec=spec) if job is head else job for job in view.jobs)
    return replace(view, cluster=view.cluster.temporarily(nodes), jobs=jobs)


def _nodes_for(view: Snapshot, head: Job) -> set[NodeId]:
    """Nodes that hold the head's gang once they are empty: the emptiest that are enough, and none in vain."""
    spec, currency, around = head.spec, view.currency, view.neighbourhood
    if around is not None and around.relates(spec):
        return {worker.node for worker in seats_at_least(around, view.cluster, spec) or ()}
    held: dict[NodeId, int] = {}
    for job in view.holding:
        for worker in job.workers + job.leaving:
            held[worker.node] = held.get(worker.node, 0) + job.spec.request_of(worker.role)[currency]
    spaces = {node.id: space_of(node) for node in admitting(view.cluster.bare.nodes, spec)}
    parts = [spec.request, *(role.request for role in spec.fixed)]
    slots = {node_id: sum(slots_in(space, part) for part in parts) for node_id, space in spaces.items()}
    offers = sorted((held.get(node_id, 0), -slots[node_id], node_id) for node_id in spaces if slots[node_id])
    order = [node_id for _, _, node_id in offers]
    gang = gang_of(spec)
    low, high = 0, len(order)
    while low < high:  # the first so many that are enough
        middle = (low + high) // 2
        low, high = (low, middle) if gang_fits([spaces[each] for each in order[:middle]], gang) else (middle + 1, high)
    aside = order[:high]
    for node_id in reversed(order[: max(0, high - 1)]):  # the last one is needed; of the others perhaps not all
        fewer = [each for each in aside if each != node_id]
        if gang_fits([spaces[each] for each in fewer], gang):
            aside = fewer
    return set(aside)
