"""Minimums before growth: the least seats of all jobs that were granted something, when some found none.

A policy shares out one resource. Where another one binds, or nodes are fragmented, a job may find no seat although
others hold workers above their least size. Here every running job is cut down to that, in place; then jobs that are to
start are seated in the policy's order, each at its least size, by the usual packing. If a job finds no seat even so,
one is sought exactly (`exact_seats.py`). No running job is moved or taken below its least size, and its first worker
and its fixed roles stay where they are.

The search is bounded: so many jobs as the caller allows and, around each, the `NODES_MAX` nodes that could hold most
of it. Beyond that the packing's result stands. A job that rules relate to other pods is sought a seat by those rules
(`rule_seats.py`) instead, and not exactly. Growth comes back afterwards (`regrowth.py`).
"""

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.placement.exact_seats import Runner, Starter, exact_seats
from sterna.placement.frame import frame_of
from sterna.placement.packing import numbered, seated
from sterna.placement.regrowth import held_as_it_was, may_stay
from sterna.placement.room import Room
from sterna.placement.rule_check import relates
from sterna.placement.rule_seats import seated_by_rules
from sterna.placement.shrinking import is_elastic, shrunk
from sterna.placement.tenants import Tenants

NODES_MAX = 48

Workers = tuple[Worker, ...]


class LeastSeats(NamedTuple):
    """What came of it."""

    seats: dict[JobId, Workers]  # of every job that has one, at its least size
    problems: int  # how many were posed
    could_ever_hold: Callable[[JobSpec, int], bool]  # is there hope for so many workers of such a job at all?


def least_seats(view: Snapshot, target: Target, layout: Layout, *, problems_max: int) -> LeastSeats:
    """A seat, at its least size, for every running job and for as many of the others as can be, in their order."""
    table = _Table(view, target, layout)
    problems = 0
    refused: set[tuple[object, ...]] = set()
    for job_id, grant in target.grants.items():
        if grant.workers <= 0 or job_id in table.seats or job_id not in table.jobs:
            continue
        spec = table.jobs[job_id].spec
        size = least_size(spec, grant)
        laid = layout.workers.get(job_id) or table.own(job_id)
        if relates(view, table.jobs[job_id]):  # what becomes of it says nothing about others
            table.seat_by_rules(job_id, laid, size)
            continue
        alike = (spec.request, spec.fixed, spec.demands, spec.accelerator, size)
        if alike in refused or table.seat(job_id, laid, size):
            continue
        if problems < problems_max and table.could_hold(spec, size):
            problems += 1
            if table.seat_exactly(job_id, size):
                continue
        refused.add(alike)
    return LeastSeats(table.seats, problems, table.could_hold)


def least_size(spec: JobSpec, grant: Grant) -> int:
    """What a job makes do with when it must: the grant's floor, on its grid."""
    return max(spec.workers_min, spec.allowed_size(grant.floor))


class _Table:
    """One seating in the making. Lives for one call."""

    def __init__(self, view: Snapshot, target: Target, layout: Layout) -> None:
        """Running jobs, cut down to their least size where the layout has them."""
        self.view, self.jobs, self.grants = view, view.by_id, target.grants
        self.seats: dict[JobId, Workers] = {}  # of running jobs first, then of others as they are seated
        self.loose: dict[JobId, Workers] = {}  # of running jobs: workers of which some may go
        self.room = Room.empty(frame_of(view.cluster))  # holds the seats
        for job_id, grant in target.grants.items():
            workers = layout.workers.get(job_id, ())
            if workers and self.jobs[job_id].workers:
                spec = self.jobs[job_id].spec
                self.seats[job_id] = shrunk(spec, workers, least_size(spec, grant))
                self.loose[job_id] = _loose(workers) if len(workers) > len(self.seats[job_id]) else ()
                self.room.hold(spec, self.seats[job_id])
        self.roomiest = self._without(self.loose)  # as if all that is loose, and all jobs that start, were gone

    def seat(self, job_id: JobId, laid: Workers, size: int) -> bool:
        """Where the layout has it, if that is still free, else where packing would have it."""
        spec, grant = self.jobs[job_id].spec, self.grants[job_id]
        workers = shrunk(spec, laid, size)
        whole = len(workers) == size + spec.fixed_count
        if not whole or not held_as_it_was(self.room, spec, workers):
            workers = seated(self.room, spec, (), Grant(size, size, grant.because)) or ()
        if workers:
            self.seats[job_id] = workers
        return bool(workers)

    def seat_by_rules(self, job_id: JobId, laid: Workers, size: int) -> None:
        """Where it is, if that is still free, else where rules between pods allow it beside all that have a seat."""
        around, spec, grant = self.view.neighbourhood, self.jobs[job_id].spec, self.grants[job_id]
        assert around is not None
        workers = shrunk(spec, laid, size)
        whole = len(workers) == size + spec.fixed_count and all(around.is_present(job_id, held) for held in workers)
        if not whole or not held_as_it_was(self.room, spec, workers):
            tenants = Tenants(around)
            for other, held in self.seats.items():
                if relates(self.view, self.jobs[other]):
                    tenants.hold(self.jobs[other].spec, held)
            workers = seated_by_rules(self.room, tenants, spec, (), Grant(size, size, grant.because)) or ()
        if workers:
            self.seats[job_id] = workers

    def own(self, job_id: JobId) -> Workers:
        """What it holds now, where it may stay."""
        return may_stay(self.room.frame, self.jobs[job_id])

    def could_hold(self, spec: JobSpec, size: int) -> bool:
        """Would there be enough slots, one by one, if all that is loose were gone? If not, no search will find any."""
        mask = self.room.frame.admitting(spec)
        needs = [*((fixed.request, fixed.replicas) for fixed in spec.fixed), (spec.request, size)]
        return all(int(self.roomiest.slots(request, mask).sum()) >= count for request, count in needs)

    def seat_exactly(self, job_id: JobId, size: int) -> bool:
        """A seat for this job too, if there is one around which every job seated so far still fits."""
        spec = self.jobs[job_id].spec
        nodes = self._nodes_around(spec)
        runners, starters = self._who_is_on({self.room.frame.nodes[at].id for at in nodes})
        loose = {runner.job.spec.id: runner.loose for runner in runners}
        starting = {starter.spec.id for starter in starters}
        room = self._without(loose, starting)
        found = exact_seats(room, nodes, runners, [*starters, Starter(spec, size)])
        if found is None:
            return False
        seats = dict(found.started)
        for job, stays, _, _ in runners:
            kept = numbered(job.spec, stays, found.kept[job.spec.id])
            seats[job.spec.id] = shrunk(job.spec, kept, least_size(job.spec, self.grants[job.spec.id]))
        for other in seats.keys() & self.seats.keys():
            self.room.release(self.jobs[other].spec, self.seats[other])
        for other, workers in seats.items():
            self.room.hold(self.jobs[other].spec, workers)
        self.seats.update(seats)
        return True

    def _nodes_around(self, spec: JobSpec) -> list[int]:
        """All nodes; if they are too many, those that could hold most workers or fixed roles of this job."""
        frame = self.room.frame
        everywhere = range(len(frame.nodes))
        if len(everywhere) <= NODES_MAX:
            return list(everywhere)
        mask = frame.admitting(spec)
        slots = self.roomiest.slots(spec.request, mask).copy()
        for fixed in spec.fixed:
            slots += self.roomiest.slots(fixed.request, mask) > 0
        return sorted(sorted(everywhere, key=lambda at: (-int(slots[at]), at))[:NODES_MAX])

    def _who_is_on(self, there: Set[NodeId]) -> tuple[list[Runner], list[Starter]]:
        """Running jobs that have something loose on these nodes; jobs that start wholly on them."""
        runners: list[Runner] = []
        starters: list[Starter] = []
        for job_id, workers in self.seats.items():
            job = self.jobs[job_id]
            if job_id not in self.loose:
                if all(worker.node in there for worker in workers) and not relates(self.view, job):
                    starters.append(Starter(job.spec, sum(map(is_elastic, workers))))
                continue
            loose = tuple(worker for worker in self.loose[job_id] if worker.node in there)
            if loose:
                stays = tuple(worker for worker in workers if worker not in loose)
                fewest = least_size(job.spec, self.grants[job_id]) - sum(map(is_elastic, stays))
                runners.append(Runner(job, stays, loose, max(0, fewest)))
        return runners, starters

    def _without(self, loose: Mapping[JobId, Workers], starting: Set[JobId] = frozenset()) -> Room:
        """The room as it is without these workers and these jobs."""
        room = self.room.copy()
        for job_id, workers in loose.items():
            gone = set(workers).intersection(self.seats[job_id])
            room.release(self.jobs[job_id].spec, gone)
        for job_id in starting:
            room.release(self.jobs[job_id].spec, self.seats[job_id])
        return room


def _loose(workers: Workers) -> Workers:
    """All but the first worker and the fixed roles."""
    elastic = [worker for worker in workers if is_elastic(worker)]
    first = min(elastic, key=lambda worker: worker.ordinal)
    return tuple(worker for worker in elastic if worker is not first)
