"""Jobs, pods and changes of a cluster as people and programs see them: the records that every engine gives.

The keys are those of the local engine, so that tables, `describe` and scripts work on either. What a cluster cannot
tell (a process id, the path of a log) is None.
"""

from collections.abc import Iterable
from typing import Any

from sterna.engines.contracts.members import Member, place_in_world
from sterna.engines.kubernetes.apiserver.timestamps import moment_s, moment_text
from sterna.engines.kubernetes.console.finding import FoundJob
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.engines.kubernetes.status.standing import Change, Past, Standing
from sterna.lifecycle.counters import settled
from sterna.model.growth import Growth
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

Record = dict[str, Any]

NOT_LOOKED_AT = "no operator has looked at it yet"


def moment(at_s: float | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    return None if at_s is None else f"{moment_text(at_s)[:-4]}Z"


def job_record(job: FoundJob, *, now_s: float, policy: str) -> Record:
    standing, spec, progress = job.standing, job.spec, job.standing.progress
    phase, reason, message = _told(job)
    until_s = now_s if standing.finished_s is None else standing.finished_s
    ran_s = standing.ran_s if spec is None else settled(standing, spec, now_s)["ran_s"]
    total_s = max(0.0, until_s - job.created_s)
    size = size_of(standing.assigned)
    bounds = (0, 0, 1) if spec is None else (spec.workers_min, spec.workers_max, spec.workers_step)
    return {
        "name": job.name,
        "namespace": job.namespace,
        "id": job.id,
        "uid": job.object.metadata.uid,
        "kind": job.resource.kind,
        "phase": phase.value,
        "reason": reason,
        "message": message,
        "workers": {"current": size, "min": bounds[0], "max": bounds[1], "step": bounds[2]},
        "gpus": 0 if spec is None else gpus_of(spec.request.times(size)),
        "nodes": sorted({worker.node for worker in standing.assigned}),
        "policy": policy,
        "priority": 0 if spec is None else spec.priority,
        "submittedAt": moment(job.created_s),
        "startedAt": moment(standing.first_started_s),
        "finishedAt": moment(standing.finished_s),
        "waitingSeconds": max(0.0, total_s - ran_s),
        "runningSeconds": ran_s,
        "totalSeconds": total_s,
        "progress": _share_done(standing),
        "step": None if progress is None else progress.step,
        "epoch": None if progress is None else progress.epoch,
        "metrics": {},
        "restarts": standing.restarts,
        "resizes": standing.resizes,
        "migrations": standing.migrations,
        "stepsLost": standing.steps_lost,
        "incarnation": standing.incarnation,
        "checkpoint": _checkpoint(standing),
        "remainingSeconds": None,
        "growth": _growth(standing.growth),
        "conditions": [_condition(found) for found in job.status.get("conditions") or () if isinstance(found, dict)],
    }


def _growth(growth: Growth | None) -> Record | None:
    """How its evaluation value grows. None: nobody told of one. The value itself is with the node's monitor."""
    if growth is None:
        return None
    return {
        "category": growth.category.value,
        "since": moment(growth.since_s or None),
        "metric": None,
        "value": None,
        "score": growth.score,
        "efficiency": growth.efficiency,
        "evaluations": None,
    }


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
    return {
        "name": seen.name,
        "role": None if role is None else role.value,
        "ordinal": ordinal,
        "rank": _rank(job.standing, seen),
        "node": seen.node or None,
        "devices": [] if seat is None else list(seat.devices),
        "pid": None,
        "incarnation": seen.incarnation,
        "phase": _pod_phase(seen),
        "standby": False,
        "startedAt": seen.pod.status.start_time,
        "exitCode": None if seen.end is None else seen.end.code,
        "exit": None if seen.end is None else seen.end.message,
        "log": None,
    }


def change_records(job: FoundJob) -> list[Record]:
    """What changed about the job so far, the oldest first, and what is under way."""
    standing = job.standing
    past = [_past(job.id, change) for change in standing.history]
    if standing.change is not None:
        past.append(_under_way(job.id, standing.change))
    return past


def change_record(name: str, job_id: str, **known: Any) -> Record:
    """A change with all its keys; those that are not known are None."""
    nothing = dict.fromkeys(
        (
            *("kind", "worker", "from", "to", "workersBefore", "workersAfter", "phase", "reason", "message"),
            *("requested", "requestedAt", "finishedAt", "warm", "rebalancer", "expectedBenefitSeconds"),
            *(
                "estimatedCostSeconds",
                "saveSeconds",
                "loadSeconds",
                "downtimeSeconds",
                "step",
                "stepAfter",
                "stepsLost",
            ),
        )
    )
    return {"id": name, "job": job_id, **nothing, **known}


def change_id(job_id: str, began_s: float) -> str:
    """Of a change that no object stands for. The history forgets the oldest, so its place there would not do."""
    return f"{job_id}@{began_s:.3f}"


def size_of(workers: Iterable[Worker]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def nodes_of(workers: Iterable[Worker]) -> str:
    return ",".join(sorted({worker.node for worker in workers}))


def gpus_of(amount: Resources) -> int | float:
    whole, rest = divmod(amount.gpu_milli, WHOLE_GPU_MILLI)
    return whole if not rest else amount.gpu_milli / WHOLE_GPU_MILLI


def _told(job: FoundJob) -> tuple[Phase, str, str]:
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


def _share_done(standing: Standing) -> float | None:
    progress = standing.progress
    if progress is None or not progress.units_total:
        return None
    return min(1.0, progress.units_done / progress.units_total)


def _checkpoint(standing: Standing) -> Record | None:
    """The last step that somebody acknowledged."""
    for change in reversed(standing.history):
        if change.committed_step is not None:
            save_s = None if standing.progress is None else standing.progress.save_s
            return {"step": change.committed_step, "bytes": None, "saveSeconds": save_s, "at": moment(change.ended_s)}
    return None


def _condition(found: Record) -> Record:
    return {
        "type": str(found.get("type", "")),
        "status": str(found.get("status", "")),
        "reason": str(found.get("reason", "")),
        "message": str(found.get("message", "")),
        "lastUpdateTime": moment(moment_s(found.get("lastUpdateTime"))),
        "lastTransitionTime": moment(moment_s(found.get("lastTransitionTime"))),
        "observedGeneration": found.get("observedGeneration", 0),
    }


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


def _past(job_id: str, change: Past) -> Record:
    return change_record(
        _request_of(change) or change_id(job_id, change.began_s),
        job_id,
        kind=change.kind,
        worker=_only_mover(change.before, change.after),
        **{"from": nodes_of(change.before)},
        to=nodes_of(change.after),
        workersBefore=size_of(change.before),
        workersAfter=size_of(change.after),
        phase=change.result,
        reason=change.why,
        message=change.message,
        requested=bool(change.migration),
        requestedAt=moment(change.began_s),
        finishedAt=moment(change.ended_s),
        warm=False,
        downtimeSeconds=change.downtime_s,
        step=change.committed_step,
    )


def _under_way(job_id: str, change: Change) -> Record:
    return change_record(
        _request_of(change) or change_id(job_id, change.began_s),
        job_id,
        kind=change.kind,
        worker=_only_mover(change.before, change.after),
        **{"from": nodes_of(change.before)},
        to=nodes_of(change.after),
        workersBefore=size_of(change.before),
        workersAfter=size_of(change.after),
        phase="Moving" if change.stopped_s is None else "Starting",
        reason=change.why,
        message=change.message,
        requested=bool(change.migration),
        requestedAt=moment(change.began_s),
        warm=False,
        step=change.committed_step,
    )


def _request_of(change: Past | Change) -> str:
    """Namespace and name of the object that asked for it, of which the job remembers the uid as well; empty: nobody."""
    return "/".join(change.migration.split("/")[:2])


def _only_mover(before: tuple[Worker, ...], after: tuple[Worker, ...]) -> int | None:
    moved = [worker for worker in before if worker not in after and worker.role is Role.WORKER]
    return moved[0].ordinal if len(moved) == 1 and len(before) == len(after) else None
