"""Rows of changes: opened by a decision or a loss, followed while processes come and go, closed with what they cost.

Which kind a change is, what is counted and how it is told are every engine's rules (`lifecycle/changes.py`). A change
follows what happens (`follow`) and never causes it.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from sterna.engines.local.reconcile.gang import Gang
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import ChangeRow, Stage, WorkerRow
from sterna.lifecycle.changes import (
    ChangeKind,
    Cost,
    counted,
    disruptions_with,
    event_reason,
    in_words,
    kind_going_on,
    kind_of,
)
from sterna.model.considering import ConsideredMove
from sterna.model.jobs import Worker
from sterna.model.phases import Phase, Trigger, after
from sterna.model.why import Because
from sterna.protocol import WorkerPhase

_ORDER = (Stage.PENDING, Stage.WARMING, Stage.NOTICED, Stage.COMMITTED, Stage.RESUMING)


def begin(
    book: Book,
    job: LocalJob,
    *,
    before: tuple[Worker, ...],
    to: tuple[Worker, ...],
    because: Because,
    warm: bool,
    by: ConsideredMove | None = None,
) -> None:
    """Open a change, or go on with the one that is open: a job has one at a time."""
    row = job.row
    estimate = _estimate_s(job, warm=warm)
    open_change = book.changes.get(row.change) if row.change is not None else None
    if open_change is not None:
        first = open_change.before or before
        kind = kind_going_on(open_change.kind, first, to)
        book.set_change(replace(open_change, before=first, after=to, kind=kind, warm=warm, estimated_cost_s=estimate))
        return
    if not before:
        return  # a start disrupts nothing
    asked = next((change for change in book.changes.values() if _was_asked(change, job, to)), None)
    if asked is not None:
        book.set_change(replace(asked, before=before, after=to, warm=warm, estimated_cost_s=estimate))
        book.set_job(job, change=asked.id)
        return
    change = book.new_change(
        job,
        kind=kind_of(before, to),
        why=because.why,
        message=because.sentence,
        before=before,
        after=to,
        warm=warm,
        by=by.by if by is not None else "",
        benefit_s=by.benefit_s if by is not None and math.isfinite(by.benefit_s) else None,
        estimated_cost_s=by.cost_s if by is not None and estimate is None else estimate,
        step=row.progress.step if row.progress is not None else None,
    )
    book.set_job(job, change=change.id)


def begin_restart(book: Book, job: LocalJob, *, why: str, message: str) -> None:
    """Something ended that should not have."""
    row = job.row
    if row.change is not None and (open_change := book.changes.get(row.change)) is not None:
        if open_change.kind is ChangeKind.RESTART:
            return
        close(book, job, Stage.FAILED, message=message)
    change = book.new_change(
        job,
        kind=ChangeKind.RESTART,
        why=why,
        message=message,
        before=job.row.assigned,
        after=job.row.assigned,
        step=row.progress.step if row.progress is not None else None,
    )
    book.set_job(job, change=change.id)


def follow(book: Book, job: LocalJob, gang: Gang) -> None:
    """Bring the open change up to date with what the processes do."""
    number = job.row.change
    change = book.changes.get(number) if number is not None else None
    if change is None:
        return
    if job.row.held_s is not None and change.last_step_mono_s is None:
        change = _with_last_words(book, change, gang)
    stage = _stage(change, job, gang)
    if stage is Stage.SUCCEEDED:
        close(book, job, Stage.SUCCEEDED)
    elif stage is not change.stage and _ORDER.index(stage) > _ORDER.index(change.stage):
        book.set_change(replace(change, stage=stage))


def close(book: Book, job: LocalJob, stage: Stage, *, message: str | None = None) -> None:
    """The change is over: what it cost is known as far as it ever will be."""
    number = job.row.change
    change = book.changes.get(number) if number is not None else None
    if change is None:
        book.set_job(job, change=None)
        return
    now_s = book.timeline.now()
    done = _with_costs(change, job) if stage is Stage.SUCCEEDED else change
    done = replace(done, stage=stage, finished_s=now_s, message=change.message if message is None else message)
    book.set_change(done)
    row = job.row
    values: dict[str, object] = {"change": None, "warm": False}
    if stage is Stage.SUCCEEDED:
        values["steps_lost"] = row.steps_lost + (done.steps_lost or 0)
        values |= counted(row, done.kind)
        job.disruptions = disruptions_with(job.disruptions, done.kind, now_s, done.downtime_s)
        if done.downtime_s is not None and row.progress is not None:
            restart_s = max(0.0, done.downtime_s - (done.save_s or 0.0))
            values["progress"] = row.progress._replace(restart_s=restart_s)
    if row.phase is Phase.RESIZING and row.assigned:
        values["phase"] = after(row.phase, Trigger.SETTLED)
    book.set_job(job, **values)
    if stage is Stage.SUCCEEDED:
        reason = event_reason(done.kind, done.before, done.after)
        told = in_words(done.kind, done.before, done.after, done.message, _cost(done))
        book.event(reason, told, job=row.id, data=_numbers(done))


def _was_asked(change: ChangeRow, job: LocalJob, to: tuple[Worker, ...]) -> bool:
    return change.asked and change.job_uid == job.row.uid and change.stage is Stage.PENDING and bool(to)


def _stage(change: ChangeRow, job: LocalJob, gang: Gang) -> Stage:
    rows = [process.row for process in gang.processes]
    if change.kind is ChangeKind.PREEMPTION and not job.row.assigned:
        if not gang.live:
            return Stage.SUCCEEDED
        return Stage.NOTICED
    newer = [process for process in gang.wanted if process.row.incarnation > change.from_incarnation]
    if gang.restarts:
        if job.row.incarnation > change.from_incarnation:
            return Stage.SUCCEEDED if _trains_again(gang, job) else Stage.RESUMING
    elif job.row.assigned and _all_in_place(gang) and job.row.held_s is None:
        return Stage.SUCCEEDED if _went_on(change, gang) else Stage.RESUMING
    told = [row for row in rows if row.notice_s is not None and row.notice_s >= change.requested_s]
    if told and all(process.safe for process in gang.live if process.row.notice_s is not None):
        return Stage.COMMITTED
    if told:
        return Stage.NOTICED
    return Stage.WARMING if any(process.row.standby for process in newer) else Stage.PENDING


def _with_last_words(book: Book, change: ChangeRow, gang: Gang) -> ChangeRow:
    """Where training stands when all stand still: their processes will be others when it goes on."""
    spoke = [p for p in gang.processes if p.stands and p.status is not None and p.status.phase is WorkerPhase.COMMITTED]
    if not spoke:
        return change
    status = min(spoke, key=lambda process: (process.row.rank, process.uid)).status
    assert status is not None
    change = replace(change, step=status.step, save_s=status.save_s, last_step_mono_s=status.last_step_mono_s)
    book.set_change(change)
    return change


def _went_on(change: ChangeRow, gang: Gang) -> bool:
    """Has a step been made since all stood still?"""
    if change.last_step_mono_s is None:
        return True
    steps = [p.status.first_step_mono_s for p in gang.wanted if p.status is not None]
    return any(made is not None and made > change.last_step_mono_s for made in steps)


def _trains_again(gang: Gang, job: LocalJob) -> bool:
    """Has the new gang made its first step? Where no member ever told of steps: do all members run?"""
    current = gang.of(job.row.incarnation)
    if not current:
        return False
    first = min(current, key=lambda process: process.row.rank)
    if first.status is not None:
        return first.status.first_step_mono_s is not None
    spoke_before = any(process.row.heard is not None for process in gang.processes)
    return not spoke_before and all(process.runs for process in current)


def _all_in_place(gang: Gang) -> bool:
    """Every member that should be there runs or is done, and none is left that should not be."""
    held = {process.row.place for process in gang.wanted if process.runs} | {p.row.place for p in gang.done}
    return set(gang.job.assigned) <= held and len(gang.live) == len(gang.wanted)


def _with_costs(change: ChangeRow, job: LocalJob) -> ChangeRow:
    """What it cost, from the last statuses of the old gang and the first of the new one."""
    new = _spokesman(job, lambda row: row.incarnation == job.row.incarnation and row.notice_s is None)
    old = _spokesman(
        job, lambda row: row.incarnation == change.from_incarnation and row.incarnation < job.row.incarnation
    )
    if old is None:
        return _with_costs_of_standing_still(change, new)
    save_s, step, last_mono_s = _last_words(old)
    restored, load_s, first_mono_s = None, None, None
    if new is not None and new.status is not None:
        restored, load_s = new.status.restored_step, new.status.load_s
        first_mono_s = new.status.first_step_mono_s
    downtime_s = None
    if first_mono_s is not None and last_mono_s is not None:
        downtime_s = max(0.0, first_mono_s - last_mono_s)
    comes_after = change.kind is not ChangeKind.PREEMPTION
    lost = max(0, step - (restored or 0)) if comes_after and new is not None and new.status is not None else None
    return replace(
        change,
        save_s=save_s,
        load_s=load_s,
        downtime_s=downtime_s,
        step=step,
        step_after=restored if comes_after else None,
        steps_lost=lost,
    )


def _with_costs_of_standing_still(change: ChangeRow, new: LocalProcess | None) -> ChangeRow:
    """No member was replaced by a new incarnation: members came and went while the others trained on or stood still."""
    status = new.status if new is not None else None
    if change.last_step_mono_s is None or status is None or status.first_step_mono_s is None:
        return replace(change, downtime_s=0.0, steps_lost=0)
    return replace(
        change,
        load_s=status.load_s,
        downtime_s=max(0.0, status.first_step_mono_s - change.last_step_mono_s),
        step_after=status.restored_step,
        steps_lost=max(0, (change.step or 0) - (status.restored_step or 0)),
    )


def _spokesman(job: LocalJob, belongs: Callable[[WorkerRow], bool]) -> LocalProcess | None:
    """The lowest rank that ever spoke, of the rows that belong."""
    found = [p for p in job.processes.values() if belongs(p.row) and (p.status is not None or p.row.heard is not None)]
    return min(found, key=lambda process: (process.row.rank, process.row.uid), default=None)


def _last_words(process: LocalProcess) -> tuple[float | None, int, float | None]:
    status, heard = process.status, process.row.heard
    if status is not None:
        return status.save_s, status.step, status.last_step_mono_s
    assert heard is not None
    return heard.save_s, heard.step, heard.last_step_mono_s


def _estimate_s(job: LocalJob, *, warm: bool) -> float | None:
    progress = job.row.progress
    if progress is None or progress.save_s is None:
        return None
    begins_s = progress.load_s if warm else progress.restart_s
    return None if begins_s is None else progress.save_s + begins_s


def _cost(change: ChangeRow) -> Cost:
    return Cost(
        downtime_s=change.downtime_s,
        steps_lost=change.steps_lost,
        warm=change.warm,
        expected=None if change.benefit_s is None else (change.by, change.benefit_s),
    )


def _numbers(change: ChangeRow) -> dict[str, object]:
    return {
        "change": change.id,
        "why": change.why,
        "warm": change.warm,
        "rebalancer": change.by or None,
        "expectedBenefitSeconds": change.benefit_s,
        "estimatedCostSeconds": change.estimated_cost_s,
        "saveSeconds": change.save_s,
        "loadSeconds": change.load_s,
        "downtimeSeconds": change.downtime_s,
        "step": change.step,
        "stepAfter": change.step_after,
        "stepsLost": change.steps_lost,
    }
