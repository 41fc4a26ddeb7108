"""Jobs, pods and changes of a cluster, as the records that every engine gives (`lifecycle/job_record.py`).

What a cluster cannot tell (a process id, the path of a log) is None.
"""

from collections.abc import Iterable

from sterna.engines.contracts.members import Member, place_in_world
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.console.finding import FoundJob
from sterna.engines.kubernetes.progress.status_memory import remembered
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.engines.kubernetes.status.standing import Change, Past, Standing
from sterna.engines.shared_records import moment
from sterna.lifecycle import change_record as changes
from sterna.lifecycle import job_record as jobs
from sterna.lifecycle.job_record import Record
from sterna.lifecycle.job_value import job_value
from sterna.model.phases import Phase

NOT_LOOKED_AT = "no operator has looked at it yet"


def job_record(job: FoundJob, *, now_s: float, policy: str) -> Record:
    standing, spec = job.standing, job.spec
    phase, reason, message = told_of(job)
    training = None
    if spec is not None and (standing.progress is not None or standing.reported is not None):
        training = remembered(standing, spec, job.workload)
    is_measured = standing.reported is not None and standing.reported.unit_s is not None
    facts = jobs.RecordFacts(
        name=job.name,
        namespace=job.namespace,
        uid=job.object.metadata.uid,
        kind=job.resource.kind,
        submitted_s=job.created_s,
        phase=phase,
        reason=reason,
        message=message,
        spec=spec,
        state=standing,
        labels=job.object.metadata.labels or {},
        training=training,
        value=job_value(spec, standing, training) if spec and training and is_measured else None,
        evaluated=None
        if standing.growth is None
        else jobs.Evaluated(standing.growth, standing.metric or None),  # monitors have the value
        checkpoint=_checkpoint(standing),
        conditions=[_condition(found) for found in job.status.get("conditions") or () if isinstance(found, dict)],
    )
    return jobs.job_record(facts, now_s=now_s, policy=policy, moment=moment)


def full_record(job: FoundJob, pods: Iterable[Seen], *, now_s: float, policy: str, manifest: str) -> Record:
    return {
        **job_record(job, now_s=now_s, policy=policy),
        "manifest": manifest,
        "cwd": None,
        "workerDetails": [worker_record(job, seen) for seen in pods],
        "history": change_records(job),
    }


def worker_record(job: FoundJob, seen: Seen) -> Record:
    role, ordinal = seen.place or (None, None)
    seat = next((seat.worker for seat in job.standing.seats if seat.worker[:2] == seen.place), None)
    return jobs.worker_record(
        seen.name,
        role,
        ordinal,
        rank=_rank(job.standing, seen),
        node=seen.node or None,
        devices=() if seat is None else seat.devices,
        incarnation=seen.incarnation,
        phase=_pod_phase(seen),
        started=seen.pod.status.start_time,
        exit_code=None if seen.end is None else seen.end.code,
        ended=None if seen.end is None else seen.end.message,
    )


def change_records(job: FoundJob) -> list[Record]:
    """What changed about the job so far, the oldest first, and what is under way."""
    standing = job.standing
    found: list[Past | Change] = [*standing.history]
    if standing.change is not None:
        found.append(standing.change)
    return [_change_record(job.id, change) for change in found]


def change_id(job_id: str, began_s: float) -> str:
    """Of a change that no object stands for. The history forgets the oldest, so its place there would not do."""
    return f"{job_id}@{began_s:.3f}"


def told_of(job: FoundJob) -> tuple[Phase, str, str]:
    """Phase, reason and message. What the operator cannot have said goes before what it said."""
    standing = job.standing
    if job.managed_by:
        return standing.phase, "ManagedByOther", f"it is left alone: managedBy names {job.managed_by}"
    if job.object.terminating:
        return standing.phase, "Deleted", "it is being deleted"
    if job.problem and not standing.finished and not standing.seats:
        return standing.phase, job.shown[0] or "Invalid", job.problem
    if job.note:
        return standing.phase, "StatusUnreadable", job.note
    if not job.looked_at:
        return Phase.SUSPENDED if job.suspended else Phase.WAITING, "", NOT_LOOKED_AT
    return standing.phase, *job.shown


def _checkpoint(standing: Standing) -> jobs.Checkpoint | None:
    """The last step that was acknowledged."""
    save_s = None if standing.progress is None else standing.progress.save_s
    for change in reversed(standing.history):
        if change.committed_step is not None:
            return jobs.Checkpoint(change.committed_step, None, save_s, change.ended_s)
    return None


def _condition(found: Record) -> Record:
    """Conditions of other programs are shown as well."""
    return jobs.condition_record(
        str(found.get("type", "")),
        str(found.get("status", "")),
        reason=str(found.get("reason", "")),
        message=str(found.get("message", "")),
        updated=moment(moment_s(found.get("lastUpdateTime"))),
        changed=moment(moment_s(found.get("lastTransitionTime"))),
        generation=found.get("observedGeneration", 0),
    )


def _rank(standing: Standing, seen: Seen) -> int | None:
    if seen.place is None or seen.place not in {worker[:2] for worker in standing.assigned}:
        return None
    place = place_in_world(*seen.place, [Member(worker.role, worker.ordinal, "", 0) for worker in standing.assigned])
    return None if place is None else place.rank


def _pod_phase(seen: Seen) -> str:
    if seen.terminating:
        return "terminating"
    if seen.trouble is not None:
        return seen.trouble.reason
    return seen.pod.status.phase.lower() or "pending"


def _change_record(job_id: str, change: Past | Change) -> Record:
    if isinstance(change, Past):
        phase, ended_s, downtime_s = change.result, change.ended_s, change.downtime_s
    else:
        phase, ended_s, downtime_s = "Moving" if change.stopped_s is None else "Starting", None, None
    facts = changes.ChangeFacts(
        id=_request_of(change) or change_id(job_id, change.began_s),
        job_id=job_id,
        kind=change.kind,
        phase=phase,
        reason=change.why,
        message=change.message,
        before=change.before,
        after=change.after,
        requested=bool(change.migration),
        requested_s=change.began_s,
        finished_s=ended_s,
        downtime_s=downtime_s,
        step=change.committed_step,
    )
    return changes.change_record(facts, moment=moment)


def _request_of(change: Past | Change) -> str:
    """Namespace and name of the object that asked for it, of which the job remembers the uid as well; empty: none."""
    return "/".join(change.migration.split("/")[:2])
