"""What a decision means for users: the events that follow from a snapshot and what was decided about it.

They follow, so they are never stored: a journal's `decided` entries are enough to derive them again.
"""

from collections.abc import Iterator

from sterna.lifecycle.gang_roles import size_of
from sterna.model.events import JobEvent, JobMigrated, JobPreempted, JobResized, JobStarted, JobWaits, Workers
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.plan import Action, Decision
from sterna.model.snapshot import Snapshot
from sterna.planner.reasons import Reasons


def events_of(view: Snapshot, decision: Decision) -> Iterator[JobEvent]:
    """What changes for each job, or why it goes on waiting; nothing for a job that keeps what it has."""
    reasons = Reasons(view, decision)
    last: dict[JobId, Action] = {action.job_id: action for step in decision.steps for action in step.actions}
    for job in view.jobs:
        if (action := last.get(job.id)) is not None:
            if (event := _change(view.now_s, job, action)) is not None:
                yield event
        elif job.wants_workers and not job.workers:
            yield JobWaits(view.now_s, job.id, reasons.of(job))


def _change(now_s: float, job: Job, action: Action) -> JobEvent | None:
    before: Workers = job.workers
    _, after, because = action
    if before == after:
        return None
    if not before:
        return JobStarted(now_s, job.id, after, because)
    if not after:
        return JobPreempted(now_s, job.id, before, because)
    if size_of(before) != size_of(after):
        return JobResized(now_s, job.id, before, after, because)
    return JobMigrated(now_s, job.id, before, after, because)
