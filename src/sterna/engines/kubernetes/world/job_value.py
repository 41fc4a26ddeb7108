"""Which jobs the scheduling core sees, and which of their pods still take room. Pure."""

from collections.abc import Callable
from dataclasses import replace

from sterna.engines.kubernetes.reconcile.intentions import is_others
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.held_back import placed_under
from sterna.lifecycle.job_value import TrainingFacts, job_value
from sterna.lifecycle.node_refusals import in_force
from sterna.model.jobs import Job, JobSpec, Worker

FactsOf = Callable[[JobView, JobSpec], TrainingFacts]


def value_of(view: JobView, facts_of: FactsOf = lambda *_: TrainingFacts()) -> Job | None:
    """None: it has no spec, has not been taken in yet, has ended, is held back or is not ours; whatever pods it still
    has take room like any other pods. `facts_of` tells how such a job trains.
    """
    spec, standing = view.spec, view.standing
    if spec is None or standing.enqueued_s is None or standing.finished or view.deleting or is_others(view):
        return None
    if view.is_held_back:
        return None
    spec = placed_under(spec, view.hold)
    if kept_from := in_force(standing.refusals):
        spec = replace(spec, kept_from=frozenset(refusal.node for refusal in kept_from))
    denial, denied = standing.denial, ""
    if denial is not None and denial.in_force:
        denied = "" if denial.size or standing.seats else denial.words
        size = spec.allowed_size(max(denial.size, size_of(standing.assigned)))
        if size:
            spec = replace(spec, workers_max=size, workers_initial=min(spec.workers_initial, size))
    value = job_value(spec, standing, facts_of(view, spec), leaving=leaving(view), disruptions=standing.disruptions)
    return value.but(denied=denied) if denied else value


def leaving(view: JobView) -> tuple[Worker, ...]:
    """Pods that take room beside what the job is to hold. One whose own seat waits for it to be gone takes no more than
    that seat; one on a node that does not answer takes nothing that another pod could have.
    """
    if view.workload is None:
        return ()
    look = Look(view, view.workload, view.standing)
    seats = {(worker.role, worker.ordinal, worker.node) for worker in view.standing.assigned}
    found = [
        seen.worker
        for seen in look.strays
        if seen.worker is not None and not seen.over and seen.node and not look.is_out_of_reach(seen)
    ]
    return tuple(sorted(worker for worker in found if worker[:3] not in seats))
