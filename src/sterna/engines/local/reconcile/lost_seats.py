"""Places that jobs cannot stay in: a node that is lost with all that was on it, or is not offered any more."""

from sterna.engines.local.reconcile import changes
from sterna.engines.local.reconcile.row_changes import carry_out
from sterna.engines.local.reconcile.row_moves import Notice
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.world.job_value import holding
from sterna.model.ids import NodeId
from sterna.model.jobs import Role
from sterna.model.phases import Phase, Trigger, after


def lose_node(book: Book, job: LocalJob, node: NodeId) -> bool:
    """What was there is dead, as far as anybody is concerned. Says whether this job had anything there."""
    message = f"node {node} is lost"
    here = [process.row for process in job.live if process.row.node == node]
    for row in here:
        carry_out(book, job, Notice(row.uid, message, urgent=True, grace_s=0.0))
    if any(worker.node == node for worker in job.row.assigned):
        changes.begin_restart(book, job, why="NodeLost", message=message)
        _let_go(book, job, node, message)
        return True
    return bool(here)


def leave_places(book: Book, job: LocalJob, message: str, *, kill: bool) -> None:
    """The job cannot stay where it is: it holds nothing, and waits to be placed anew."""
    row = job.row
    values = holding(row, job.spec, (), book.timeline.now(), comes_back=False)
    phase = after(row.phase, Trigger.PREEMPTED) if row.phase is not Phase.WAITING else row.phase
    book.set_job(job, **values, phase=phase, warm=False, reason="PlacesLost", message=message)
    if kill:
        for process in job.live:
            carry_out(book, job, Notice(process.row.uid, message, urgent=True, grace_s=0.0))


def _let_go(book: Book, job: LocalJob, node: NodeId, message: str) -> None:
    """Those elsewhere train on if they can; a gang that has lost a member cannot even commit."""
    spec = job.spec
    left = tuple(worker for worker in job.row.assigned if worker.node != node)
    elastic = sum(worker.role is Role.WORKER for worker in left)
    whole = len(left) - elastic == spec.fixed_count
    if spec.restarts_on_resize or not whole or elastic < spec.workers_min:
        leave_places(book, job, message, kill=spec.restarts_on_resize)
    else:
        values = holding(job.row, spec, left, book.timeline.now(), comes_back=False)
        book.set_job(job, **values, message=message)
