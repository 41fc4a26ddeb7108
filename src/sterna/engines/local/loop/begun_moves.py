"""Moves that were begun are brought to their end: whoever let go in order to be elsewhere goes there.

A gang that nobody survives lets go of everything before it takes up anything, unless there is room for both. What comes
after is another cycle's decision, maybe another engine's, and placement sees a job without a place and knows nothing of
where it was to go. The job's open change does.
"""

from sterna.engines.local.store.job_book import Book
from sterna.engines.local.store.rows import ChangeRow
from sterna.lifecycle.changes import ChangeKind
from sterna.model.layout import Layout
from sterna.model.phases import Phase
from sterna.model.snapshot import Snapshot
from sterna.placement.rebalancing import with_move_finished


def begun(book: Book) -> list[ChangeRow]:
    """Moves of jobs that have let go of everything."""
    found = []
    for change in book.changes.values():
        job = book.jobs.get(change.job_id)
        if job is None or job.row.change != change.id or change.kind is not ChangeKind.MIGRATION or not change.after:
            continue
        if job.row.phase is Phase.RESIZING and not job.row.assigned:
            found.append(change)
    return found


def finished(view: Snapshot, layout: Layout, change: ChangeRow) -> Layout:
    """The job where it was to go, if there is still room."""
    return with_move_finished(view, layout, change.job_id, change.after, why=change.why)
