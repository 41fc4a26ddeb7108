"""What a job's conditions say, from its row and its processes.

Which condition is true when is every engine's rule (`lifecycle/condition_rules.py`).
"""

from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import ExitKind
from sterna.lifecycle.condition_rules import Facts, conditions_now, trains


def tell(book: Book, job: LocalJob) -> None:
    """Bring the conditions in the job's row up to date with everything that can be said now."""
    row = job.row
    change = book.changes.get(row.change) if row.change is not None else None
    kinds = [disruption.kind for disruption in job.disruptions[-1:]] if change is None else [change.kind]
    runs = {p.row.place for p in job.live if p.state is not None and p.state.alive and not p.row.standby}
    through = {
        p.row.place
        for p in job.processes.values()
        if p.row.exit is not None and p.row.exit.kind is ExitKind.COMPLETED and p.row.incarnation == row.incarnation
    }
    facts = Facts(
        kind=job.workload.kind,
        job_id=row.id,
        generation=row.generation,
        phase=row.phase,
        reason=row.reason,
        message=row.message,
        held=row.assigned,
        change=change,
        latest=kinds[0] if kinds else "",
        trains=trains(job.workload, row.assigned, [place[:2] for place in runs]),
        all_ready=bool(row.assigned) and runs | through >= set(row.assigned),
    )
    conditions = conditions_now(row.conditions, facts, book.timeline.now())
    if conditions != row.conditions:
        book.set_job(job, conditions=conditions)
