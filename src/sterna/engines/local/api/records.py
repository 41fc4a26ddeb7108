"""Jobs, nodes, changes and events as people and programs see them: plain records with camelCase keys."""

import math
from datetime import UTC, datetime
from typing import Any

from sterna.engines.local.launch.warden.values import Limits
from sterna.engines.local.process.home import Home
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.store.rows import ChangeRow, Evaluation, EventRow, WorkerRow, WorkerState
from sterna.engines.local.world.job_value import training_facts
from sterna.engines.local.world.machine_nodes import OfferedNode
from sterna.lifecycle.counters import settled
from sterna.model.conditions import Condition
from sterna.model.jobs import Role, Worker
from sterna.model.nodes import Node
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

Record = dict[str, Any]


def moment(at_s: float | None) -> str | None:
    """ISO 8601 in UTC."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_record(job: LocalJob, *, now_s: float, policy: str) -> Record:
    row, spec, progress = job.row, job.spec, job.row.progress
    until_s = now_s if row.finished_s is None else row.finished_s
    ran_s = settled(row, spec, now_s)["ran_s"]
    total_s = max(0.0, until_s - row.submitted_s)
    size = _size(row.assigned)
    return {
        "name": job.workload.name,
        "namespace": job.workload.namespace,
        "id": row.id,
        "uid": row.uid,
        "kind": job.workload.kind,
        "phase": row.phase.value,
        "reason": row.reason,
        "message": row.message,
        "workers": {"current": size, "min": spec.workers_min, "max": spec.workers_max, "step": spec.workers_step},
        "gpus": _gpus(spec.request.times(size)),
        "nodes": sorted({worker.node for worker in row.assigned}),
        "policy": policy,
        "priority": spec.priority,
        "submittedAt": moment(row.submitted_s),
        "startedAt": moment(row.first_started_s),
        "finishedAt": moment(row.finished_s),
        "waitingSeconds": max(0.0, total_s - ran_s),
        "runningSeconds": ran_s,
        "totalSeconds": total_s,
        "progress": _share_done(job),
        "step": progress.step if progress is not None else None,
        "epoch": progress.epoch if progress is not None else None,
        "metrics": _finite(progress.metrics) if progress is not None else {},
        "growth": _growth(job.row.evaluation),
        "restarts": row.restarts,
        "resizes": row.resizes,
        "migrations": row.migrations,
        "stepsLost": row.steps_lost,
        "incarnation": row.incarnation,
        "checkpoint": _checkpoint(job),
        "remainingSeconds": _remaining_s(job, now_s),
        "conditions": [_condition(condition) for condition in row.conditions],
    }


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
    return {
        "name": row.uid,
        "role": row.role.value,
        "ordinal": row.ordinal,
        "rank": row.rank,
        "node": row.node,
        "devices": list(row.devices),
        "pid": row.pid if row.live else None,
        "incarnation": row.incarnation,
        "phase": phase,
        "standby": row.standby,
        "startedAt": moment(row.started_s),
        "exitCode": row.exit.code if row.exit is not None else None,
        "exit": row.exit.message if row.exit is not None else None,
        "log": str(home.mailbox(job.row.uid, row.uid) / "log"),
    }


def change_record(change: ChangeRow) -> Record:
    """One migration, resize, preemption or restart."""
    one = len(change.before) == len(change.after) == 1
    moved = [worker for worker in change.before if worker not in change.after]
    worker = change.worker if change.worker is not None else moved[0].ordinal if len(moved) == 1 and one else None
    return {
        "id": change.id,
        "job": change.job_id,
        "kind": change.kind.value,
        "worker": worker,
        "from": _nodes(change.before),
        "to": _nodes(change.after) or change.to or "",
        "workersBefore": _size(change.before),
        "workersAfter": _size(change.after),
        "phase": change.stage.value,
        "reason": change.why,
        "message": change.message,
        "requested": change.asked,
        "requestedAt": moment(change.requested_s),
        "finishedAt": moment(change.finished_s),
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


def event_record(event: EventRow) -> Record:
    return {
        "id": event.id,
        "at": moment(event.at_s),
        "job": event.job_id,
        "node": event.node_id,
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message,
        "data": dict(event.data),
    }


def node_record(
    node: Node,
    offer: OfferedNode,
    *,
    used: Resources,
    workers: list[str],
    limits: str,
    measured: Resources | None = None,
) -> Record:
    return {
        "name": node.id,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "virtual": offer.virtual,
        "accelerator": node.accelerator,
        "cpuMilli": node.allocatable.cpu_milli,
        "memoryBytes": node.allocatable.memory_bytes,
        "gpus": node.allocatable.gpu_milli // WHOLE_GPU_MILLI,
        "used": {"cpuMilli": used.cpu_milli, "memoryBytes": used.memory_bytes, "gpus": _gpus(used)},
        "measured": None
        if measured is None
        else {"cpuMilli": measured.cpu_milli, "memoryBytes": measured.memory_bytes},
        "workers": workers,
        "limits": "; ".join(filter(None, [offer.limits, limits])),
    }


def limits_text(limits: Limits | None) -> str:
    """What is enforced on workers, and what is only counted. Empty: nobody knows yet."""
    if limits is None:
        return ""
    said = {True: "enforced", False: "NOT enforced"}
    return "; ".join(
        f"{name} {said[limit.enforced]} ({limit.how})" for name, limit in zip(limits._fields, limits, strict=True)
    )


def _share_done(job: LocalJob) -> float | None:
    progress, total = job.row.progress, training_facts(job).work_total
    return None if progress is None or not total else min(1.0, progress.units_done / total)


def _checkpoint(job: LocalJob) -> Record | None:
    made = job.row.progress.checkpoint if job.row.progress is not None else None
    if made is None:
        return None
    return {
        "step": made["step"],
        "bytes": made["bytes"],
        "saveSeconds": made["saveSeconds"],
        "at": moment(made["at_s"]),
    }


def _growth(seen: Evaluation | None) -> Record | None:
    """How its evaluation value grows. None: it never told of one."""
    if seen is None:
        return None
    return {
        "category": seen.growth.category.value,
        "since": moment(seen.growth.since_s or None),
        "metric": seen.metric,
        "value": seen.value,
        "score": seen.growth.score,
        "efficiency": seen.growth.efficiency,
        "evaluations": seen.made,
    }


def _remaining_s(job: LocalJob, now_s: float) -> float | None:
    if job.value is None or job.row.progress is None:
        return None
    left_s = job.value.remaining_s(job.value.size, now_s)
    return left_s if math.isfinite(left_s) else None


def _finite(metrics: Any) -> Record:
    return {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()}


def _condition(condition: Condition) -> Record:
    return {
        "type": condition.type.value,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastUpdateTime": moment(condition.updated_s),
        "lastTransitionTime": moment(condition.transition_s),
        "observedGeneration": condition.observed_generation,
    }


def _size(workers: tuple[Worker, ...]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def _nodes(workers: tuple[Worker, ...]) -> str:
    return ",".join(sorted({worker.node for worker in workers}))


def _gpus(amount: Resources) -> int | float:
    whole, rest = divmod(amount.gpu_milli, WHOLE_GPU_MILLI)
    return whole if not rest else amount.gpu_milli / WHOLE_GPU_MILLI
