"""Jobs, nodes, changes and events as people and programs see them: plain records with camelCase keys."""

from typing import Any

from sterna.engines import shared_records
from sterna.engines.local.launch.warden.values import Limits
from sterna.engines.local.process.home import Home
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.store.rows import ChangeRow, EventRow, WorkerRow, WorkerState
from sterna.engines.local.world.job_value import training_facts
from sterna.engines.shared_records import moment
from sterna.lifecycle import change_record as changes
from sterna.lifecycle import job_record as jobs
from sterna.lifecycle.job_record import Record
from sterna.model.conditions import Condition


def job_record(job: LocalJob, *, now_s: float, policy: str) -> Record:
    row, progress, seen = job.row, job.row.progress, job.row.evaluation
    facts = jobs.RecordFacts(
        name=job.workload.name,
        namespace=job.workload.namespace,
        uid=row.uid,
        kind=job.workload.kind,
        submitted_s=row.submitted_s,
        phase=row.phase,
        reason=row.reason,
        message=row.message,
        spec=job.spec,
        state=row,
        labels=dict(job.workload.labels),
        training=None if progress is None else training_facts(job),
        value=None if progress is None else job.value,
        metrics={} if progress is None else progress.metrics,
        evaluated=None if seen is None else jobs.Evaluated(seen.growth, seen.metric, seen.value, seen.made),
        checkpoint=_checkpoint(job),
        conditions=[_condition(condition) for condition in row.conditions],
    )
    return jobs.job_record(facts, now_s=now_s, policy=policy, moment=moment)


def full_record(job: LocalJob, home: Home, changes: list[ChangeRow], *, now_s: float, policy: str) -> Record:
    details = [worker_record(job, process.row, home) for process in job.processes.values()]
    return {
        **job_record(job, now_s=now_s, policy=policy),
        "manifest": job.row.manifest,
        "cwd": job.row.cwd,
        "workerDetails": details,
        "history": [change_record(change) for change in changes],
    }


def worker_record(job: LocalJob, row: WorkerRow, home: Home) -> Record:
    process = job.processes[row.uid]
    said = process.status.phase.value if process.status is not None else row.heard.phase if row.heard else None
    phase = row.state.value if said is None or row.state is not WorkerState.RUNNING else said
    return jobs.worker_record(
        row.uid,
        row.role,
        row.ordinal,
        rank=row.rank,
        node=row.node,
        devices=row.devices,
        pid=row.pid if row.live else None,
        incarnation=row.incarnation,
        phase=phase,
        standby=row.standby,
        started=moment(row.started_s),
        exit_code=row.exit.code if row.exit is not None else None,
        ended=row.exit.message if row.exit is not None else None,
        log=str(home.mailbox(job.row.uid, row.uid) / "log"),
    )


def change_record(change: ChangeRow) -> Record:
    """One migration, resize, preemption or restart."""
    facts = changes.ChangeFacts(
        id=change.id,
        job_id=change.job_id,
        kind=change.kind.value,
        phase=change.stage.value,
        reason=change.why,
        message=change.message,
        before=change.before,
        after=change.after,
        worker=change.worker,
        asked_to=change.to or "",
        requested=change.asked,
        requested_s=change.requested_s,
        finished_s=change.finished_s,
        warm=change.warm,
        rebalancer=change.by,
        benefit_s=change.benefit_s,
        estimated_cost_s=change.estimated_cost_s,
        save_s=change.save_s,
        load_s=change.load_s,
        downtime_s=change.downtime_s,
        step=change.step,
        step_after=change.step_after,
        steps_lost=change.steps_lost,
    )
    return changes.change_record(facts, moment=moment)


def event_record(event: EventRow) -> Record:
    return shared_records.event_record(
        event.id,
        at_s=event.at_s,
        job=event.job_id,
        node=event.node_id,
        type_="Warning" if event.warning else "Normal",
        reason=event.reason,
        message=event.message,
        data=event.data,
    )


def limits_text(limits: Limits | None) -> str:
    """What is enforced on workers, and what is only counted. Empty: not known yet."""
    if limits is None:
        return ""
    said = {True: "enforced", False: "NOT enforced"}
    return "; ".join(
        f"{name} {said[limit.enforced]} ({limit.how})" for name, limit in zip(limits._fields, limits, strict=True)
    )


def _checkpoint(job: LocalJob) -> jobs.Checkpoint | None:
    made: Any = job.row.progress.checkpoint if job.row.progress is not None else None
    return None if made is None else jobs.Checkpoint(made["step"], made["bytes"], made["saveSeconds"], made["at_s"])


def _condition(condition: Condition) -> Record:
    return jobs.condition_record(
        condition.type.value,
        condition.status.value,
        reason=condition.reason,
        message=condition.message,
        updated=moment(condition.updated_s),
        changed=moment(condition.transition_s),
        generation=condition.observed_generation,
    )
