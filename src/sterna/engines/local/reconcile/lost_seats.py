"""Places that jobs cannot stay in: a node that is lost with all that was on it, or is not offered any more.

Which workers train on without them is every engine's rule (`lifecycle/lost_seats.py`).
"""

from collections.abc import Container

from sterna.engines.local.reconcile import changes
from sterna.engines.local.reconcile.gang import carries_the_job
from sterna.engines.local.reconcile.row_changes import carry_out
from sterna.engines.local.reconcile.row_moves import Notice
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.lifecycle.lost_seats import NODE_LOST, Loss, after_loss, loss_in_words, who_goes_on
from sterna.model.ids import NodeId


def lose_node(book: Book, job: LocalJob, node: NodeId) -> bool:
    """All processes there count as dead. Says whether this job had anything there."""
    message = f"node {node} is lost"
    here = [process.row for process in job.live if process.row.node == node]
    for row in here:
        carry_out(book, job, Notice(row.uid, message, urgent=True, grace_s=0.0))
    losses = [Loss(worker, NODE_LOST, message) for worker in job.row.assigned if worker.node == node]
    if not losses:
        return bool(here)
    _lose(book, job, losses)
    if not job.row.assigned and job.spec.restarts_on_resize:  # a gang that has lost a member cannot even commit
        for process in job.live:
            carry_out(book, job, Notice(process.row.uid, message, urgent=True, grace_s=0.0))
    return True


def leave_all_but(book: Book, job: LocalJob, offered: Container[NodeId]) -> None:
    """The job gives up its seats on nodes that are not offered any more; what runs there may save, and goes."""
    if losses := [
        Loss(worker, NODE_LOST, f"node {worker.node} is not there any more")
        for worker in job.row.assigned
        if worker.node not in offered
    ]:
        _lose(book, job, losses)


def _lose(book: Book, job: LocalJob, losses: list[Loss]) -> None:
    row, spec, first = job.row, job.spec, losses[0]
    needed = {p.row.place[:2] for p in job.live if carries_the_job(job.workload, p.row)}
    kept = who_goes_on(spec, row.assigned, [loss.worker for loss in losses], needed=needed)
    if not kept:
        changes.begin_restart(book, job, why=first.reason, message=first.message)
    values = after_loss(job.row, spec, kept, losses, book.timeline.now())
    book.set_job(job, **values, assigned=kept, warm=row.warm and bool(kept))
    message = loss_in_words(first.message, kept=kept, held=row.assigned)
    book.event("WorkersLost", message, job=row.id, warning=True)
