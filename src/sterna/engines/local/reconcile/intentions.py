"""What the core decided, taken up into a job's row. Processes follow when the job is looked at again."""

from dataclasses import replace

from sterna.engines.local.reconcile import changes, job_conditions
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import Stage
from sterna.lifecycle.changes import kind_given_up
from sterna.lifecycle.transitions import decided, given_up
from sterna.model.considering import ConsideredMove
from sterna.model.jobs import Worker
from sterna.model.why import Because


def hold(
    book: Book,
    job: LocalJob,
    workers: tuple[Worker, ...],
    because: Because,
    *,
    warm: bool,
    next_: tuple[Worker, ...],
    by: ConsideredMove | None,
) -> None:
    """From now on the job is to hold `workers`, and `next_` once there is room for it."""
    row = job.row
    open_change = book.changes.get(row.change) if row.change is not None else None
    changes.begin(book, job, before=row.assigned, to=next_, because=because, warm=warm, by=by)
    values = decided(row, job.spec, workers, next_, because, book.timeline.now(), change=open_change)
    book.set_job(job, **values, assigned=workers, warm=warm)


def give_up(book: Book, job: LocalJob, because: Because) -> None:
    """The job let go of everything to come back in another size or place, and now it does not."""
    book.set_job(job, **given_up(job.row, because))
    change = book.changes.get(job.row.change) if job.row.change is not None else None
    if change is not None and (kind := kind_given_up(change.kind)) is not None:
        book.set_change(replace(change, kind=kind, after=()))
    elif change is not None:
        changes.close(book, job, Stage.FAILED, message=because.sentence)
    job_conditions.tell(book, job)
