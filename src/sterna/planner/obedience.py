"""Rules between pods (`model/neighbours.py`), obeyed by every policy and placement: jobs that they relate come first.

Placements know nothing of these rules. Jobs that a rule relates to other pods are seated before all others, in the
policy's order, each where the rules allow it (`placement/rule_seats.py`); the placement then finds them as if they
held these seats. All other jobs have no part in any rule, so where they are put breaks none. A policy whose grants are
wishes is asked first what would come true of them; those sizes are what related jobs are seated with.

What is there already stays, whatever a rule says: rules are about new workers, as in Kubernetes. In the end every new
worker is looked at once more, and a job that would break a rule after all gets none of its new workers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sterna.model.ids import JobId
from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.neighbours import Neighbourhood, PlacedPod, pods_of
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import Because, Why
from sterna.placement.packed import staying
from sterna.placement.room import Room
from sterna.placement.rule_check import unlawful
from sterna.placement.rule_seats import let_back, seated_by_rules
from sterna.placement.ruled_out import why_no_seat
from sterna.placement.shrinking import is_elastic, shrunk
from sterna.placement.tenants import Tenants
from sterna.planner.lanes import Part

Placing = Callable[[Snapshot, Target], Layout]
Workers = tuple[Worker, ...]


def with_neighbourhood(view: Snapshot) -> Snapshot:
    """The snapshot with what rules between pods need to know, if there is any such rule."""
    if not view.has_rules:
        return view
    return replace(view, neighbourhood=Neighbourhood.of(view.nodes, view.jobs))


def beside_others(part: Part, whole: Snapshot, decided: Sequence[tuple[Part, Layout]]) -> Part:
    """The part beside the pods of all other parts: where they were decided to be, or where they are for now."""
    around = whole.neighbourhood
    if around is None:
        return part
    own = part.view.by_id
    layouts = {job_id: layout for other, layout in decided for job_id in other.view.by_id}
    others: list[PlacedPod] = []
    doubtful: list[PlacedPod] = []
    for job in whole.jobs:
        if job.spec.id not in own and around.relates(job.spec):
            layout = layouts.get(job.spec.id)
            doubtful += pods_of(job.spec, job.leaving)
            if layout is None:
                doubtful += pods_of(job.spec, job.workers)
            else:
                others += pods_of(job.spec, layout.workers_of(job.spec.id))
    return replace(part, view=replace(part.view, neighbourhood=around.beside(others, doubtful)))


def obeying(place: Placing, around: Neighbourhood) -> Placing:
    """The same placement for a world in which there are rules between pods."""
    return _Obeying(place, around).placed


class _Obeying:
    def __init__(self, place: Placing, around: Neighbourhood) -> None:
        self._place = place
        self._around = around
        self._whys: dict[JobId, Because] = {}  # found out once, though a job may be asked about in several passes

    def placed(self, view: Snapshot, target: Target) -> Layout:
        related = {
            job_id
            for job_id, grant in target.grants.items()
            if grant.workers > 0 and job_id in view.by_id and self._around.relates(view.by_id[job_id].spec)
        }
        if not related:
            return self._place(view, target)
        if not target.wishes:
            return self._with_seats(view, target, related, Layout({}))
        first = self._place(view, target)
        layout = self._with_seats(*_come_true(view, target, first), related, first)
        head = target.make_room_for
        if head is None or head not in related or layout.workers_of(head) or not first.workers_of(head):
            return layout
        because = layout.becauses[head]  # no job gives anything up for one that a rule keeps waiting
        grants = {job_id: grant for job_id, grant in target.grants.items() if job_id != head}
        layout = self.placed(view, replace(target, grants=grants, make_room_for=None))
        return Layout(layout.workers, {**layout.becauses, head: because})

    def _with_seats(self, view: Snapshot, target: Target, related: set[JobId], first: Layout) -> Layout:
        seats, becauses = self._seats(view, target, related)
        denied = {job_id: because for job_id, because in becauses.items() if job_id not in seats}
        grants = {job_id: grant for job_id, grant in target.grants.items() if job_id not in denied}
        for job_id, workers in seats.items():
            size = sum(map(is_elastic, workers))
            grants[job_id] = grants[job_id]._replace(workers=size, floor=min(size, grants[job_id].floor))
        jobs = tuple(
            job.but(workers=seats.get(job.spec.id, ())) if job.spec.id in related else job for job in view.jobs
        )
        layout = self._place(replace(view, jobs=jobs), replace(target, grants=grants))
        reasons = {job_id: because for job_id, because in first.becauses.items() if job_id not in layout.workers}
        return Layout(layout.workers, {**reasons, **becauses, **layout.becauses, **denied})

    def _seats(
        self, view: Snapshot, target: Target, related: set[JobId]
    ) -> tuple[dict[JobId, Workers], dict[JobId, Because]]:
        """Workers of related jobs, in the order of the grants, and why those that have none, or others, have them."""
        proposed = {job_id: self._proposed(view.by_id[job_id]) for job_id in related}
        jobs = tuple(
            job.but(workers=tuple(worker for worker in job.workers if worker not in proposed[job.spec.id]))
            if proposed.get(job.spec.id)
            else job
            for job in view.jobs
        )
        view = replace(view, jobs=jobs)
        by_id, grants = view.by_id, target.grants
        room, workers, becauses = staying(view, by_id, grants)
        tenants = Tenants(self._around)
        for job_id in related:
            tenants.hold(by_id[job_id].spec, workers.get(job_id, ()))
        seats: dict[JobId, Workers] = {}
        changed: dict[JobId, Because] = {}
        for job_id in [job_id for job_id in workers if job_id in related]:
            if job_id not in becauses:
                seats[job_id] = workers[job_id]
                continue
            spec, grant, kept = by_id[job_id].spec, grants[job_id], workers[job_id]
            if proposed[job_id] and let_back(room, tenants, spec, proposed[job_id]):
                kept = (*kept, *proposed[job_id])
            placed = seated_by_rules(room, tenants, spec, kept, grant)
            if placed is not None:
                seats[job_id] = placed
                if becauses[job_id] is not grant.because:
                    changed[job_id] = becauses[job_id]
            else:
                changed[job_id] = self._why(room, tenants, by_id[job_id], grant)
        return seats, changed

    def _proposed(self, job: Job) -> Workers:
        """What the snapshot has of it that is not there: seats that a pass before this one found."""
        return tuple(worker for worker in job.workers if not self._around.is_present(job.spec.id, worker))

    def _why(self, room: Room, tenants: Tenants, job: Job, grant: Grant) -> Because:
        if job.spec.id not in self._whys:
            self._whys[job.spec.id] = why_no_seat(room, tenants, job.spec, grant)
        return self._whys[job.spec.id]


def _come_true(view: Snapshot, target: Target, layout: Layout) -> tuple[Snapshot, Target]:
    """The world in which every job holds what the layout leaves it, and is to have what the layout gives it."""
    jobs = tuple(
        job.but(workers=tuple(worker for worker in job.workers if worker in layout.workers_of(job.spec.id)))
        if job.workers and layout.workers_of(job.spec.id) is not job.workers
        else job
        for job in view.jobs
    )
    grants = {
        job_id: grant._replace(
            workers=sum(map(is_elastic, layout.workers_of(job_id))),
            floor=min(grant.floor, sum(map(is_elastic, layout.workers_of(job_id)))),
        )
        for job_id, grant in target.grants.items()
        if layout.workers_of(job_id)
    }
    return replace(view, jobs=jobs), replace(target, grants=grants, make_room_for=None)


# -- the last look ----------------------------------------------------------------------------------------------------


def lawful(view: Snapshot, target: Target, layout: Layout) -> Layout:
    """The layout without new workers that would break a rule: their jobs keep what they have of it, or wait."""
    around = view.neighbourhood
    if around is None:
        return layout
    workers, becauses = dict(layout.workers), dict(layout.becauses)
    order = [*(job_id for job_id in workers if job_id not in target.grants), *target.grants]
    while broken := unlawful(view, workers):
        last = max(broken, key=order.index)
        spec = view.by_id[last].spec
        kept = tuple(worker for worker in workers[last] if around.is_present(last, worker))
        size = sum(map(is_elastic, kept))
        goal = spec.allowed_size(size)
        if goal and len(kept) - size == spec.fixed_count:
            workers[last] = shrunk(spec, kept, goal)
        else:
            workers.pop(last)
        becauses[last] = Because(Why.RULED_OUT)
    return Layout(workers, becauses)
