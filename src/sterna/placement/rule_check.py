"""Do the new workers of a layout break a rule between pods? Workers that are there already may stay in any case."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from sterna.model.ids import JobId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.placement.frame import frame_of
from sterna.placement.tenants import Bools, Gate, Tenants, node_positions


def unlawful(view: Snapshot, workers: Mapping[JobId, tuple[Worker, ...]]) -> set[JobId]:
    """Jobs with new workers that cannot be put down, one after another in some order, without breaking a rule."""
    around = view.neighbourhood
    if around is None:
        return set()
    tenants = Tenants(around)
    waiting: list[tuple[Job, Worker]] = []
    for job in view.jobs:
        held = workers.get(job.spec.id, ())
        if held and around.relates(job.spec):
            tenants.hold(job.spec, (worker for worker in held if around.is_present(job.spec.id, worker)))
            waiting += [(job, worker) for worker in held if not around.is_present(job.spec.id, worker)]
    waiting.sort(key=_may_be_first)
    while waiting:
        alike = groupby(waiting, key=lambda entry: entry[0].spec.id)
        later = [entry for _, entries in alike for entry in _left_over(tenants, entries)]
        if len(later) == len(waiting):
            return {job.spec.id for job, _ in waiting}
        waiting = later
    return set()


def relates(view: Snapshot, job: Job) -> bool:
    """Has a rule, its own or another pod's, a say in where this job's workers are?"""
    return view.neighbourhood is not None and view.neighbourhood.relates(job.spec)


def open_beside(view: Snapshot, layout: Layout, job: Job, workers: Sequence[Worker]) -> Bools | None:
    """Nodes, by position, that take each of these workers of the job by itself, once they are off their own. None: all.

    Whether all of them may go there together is another question (`unlawful`).
    """
    around = view.neighbourhood
    if around is None or not around.relates(job.spec):
        return None
    tenants = tenants_beside(view, layout)
    tenants.release(job.spec, workers)
    nodes = frame_of(view.cluster).nodes
    where = node_positions(around, (node.id for node in nodes))
    found = np.ones(len(nodes), np.bool_)
    for role in {worker.role for worker in workers}:
        found &= tenants.gate(job.spec, job.spec.traits_of(role)).open()[where]
    return found


def tenants_beside(view: Snapshot, layout: Layout) -> Tenants:
    """All pods that rules have a say in, once the layout is carried out. There must be such rules."""
    around = view.neighbourhood
    assert around is not None
    tenants = Tenants(around)
    for job_id, held in layout.workers.items():
        if around.relates(view.by_id[job_id].spec):
            tenants.hold(view.by_id[job_id].spec, held)
    return tenants


def _may_be_first(entry: tuple[Job, Worker]) -> bool:
    """A pod that must be with its like may be the first of them: it goes before others that are like it."""
    job, worker = entry
    return not job.spec.traits_of(worker.role).together


def _left_over(tenants: Tenants, entries: Iterable[tuple[Job, Worker]]) -> Iterator[tuple[Job, Worker]]:
    """Workers of one job, put down as far as rules allow it; those that must wait for others."""
    gates: dict[Role, Gate] = {}
    for job, worker in entries:
        traits, at = job.spec.traits_of(worker.role), tenants.around.index.get(worker.node)
        if worker.role not in gates:
            gates[worker.role] = tenants.gate(job.spec, traits)
        if at is None or not gates[worker.role].open()[at]:
            yield job, worker
            continue
        tenants.hold(job.spec, (worker,))
        for gate in gates.values():
            gate.note(traits, at, 1)
