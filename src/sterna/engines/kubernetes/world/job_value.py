"""A job as the scheduling core sees it: what it holds, what is still leaving, and its counters. Pure."""

from sterna.engines.kubernetes.reconcile.intentions import is_others
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.model.jobs import Job, Worker


def value_of(view: JobView) -> Job | None:
    """Without what is learned (`.but(curve=..., units_left=...)` adds it). None: it has no spec, has not been taken in
    yet, has ended or is not ours; whatever pods it still has are in the way like anybody's.
    """
    standing, progress = view.standing, view.standing.progress
    if view.spec is None or standing.enqueued_s is None or standing.finished or view.deleting or is_others(view):
        return None
    return Job(
        spec=view.spec,
        phase=standing.phase,
        workers=standing.assigned,
        leaving=leaving(view),
        as_of_s=standing.as_of_s,
        resumes_s=standing.resumes_s,
        waiting_since_s=standing.waiting_since_s,
        first_started_s=standing.first_started_s,
        started_s=standing.started_s,
        gpu_s=standing.gpu_s,
        ran_s=standing.ran_s,
        gpu_s_since_start=standing.gpu_s_since_start,
        last_ran_s=standing.last_ran_s,
        checkpoint_s=progress.save_s or 0.0 if progress is not None else 0.0,
        restart_s=progress.restart_s or 0.0 if progress is not None else 0.0,
        disruptions=standing.disruptions,
    )


def leaving(view: JobView) -> tuple[Worker, ...]:
    """Pods that take room beside what the job is to hold. One whose own seat waits for it to be gone takes no more than
    that seat; one on a node that does not answer takes nothing that anybody could have.
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
