"""The record of one change of a job, that is one migration, resize, preemption or restart, in its history. Pure."""

from dataclasses import dataclass

from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.job_record import Moment, Record, nodes_of
from sterna.model.jobs import Role, Worker

Workers = tuple[Worker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """What an engine knows of a change. None: it does not know it, or it has not come to that yet."""

    id: int | str
    job_id: str
    kind: str
    phase: str
    reason: str
    message: str
    before: Workers | None = None  # what the job held. None: a request that nothing has come of yet, as with `after`
    after: Workers | None = None
    worker: int | None = None  # the ordinal that was asked to move. None: all of them, or nothing was asked
    asked_from: str = ""  # where a request says that the worker is. Empty: it does not
    asked_to: str = ""  # where a request wants it. Empty: anywhere
    requested: bool  # by a user, rather than decided
    requested_s: float | None
    finished_s: float | None = None
    warm: bool = False
    rebalancer: str = ""  # whose proposal it was. Empty: none's
    benefit_s: float | None = None
    estimated_cost_s: float | None = None
    save_s: float | None = None
    load_s: float | None = None
    downtime_s: float | None = None
    step: int | None = None
    step_after: int | None = None
    steps_lost: int | None = None


def change_record(change: ChangeFacts, *, moment: Moment) -> Record:
    """The change as `describe`, the list of migrations and scripts show it."""
    before, after = change.before, change.after
    return {
        "id": change.id,
        "job": change.job_id,
        "kind": change.kind,
        "worker": only_mover(before or (), after or ()) if change.worker is None else change.worker,
        "from": ",".join(nodes_of(before or ())) or change.asked_from,
        "to": ",".join(nodes_of(after or ())) or change.asked_to,
        "workersBefore": None if before is None else size_of(before),
        "workersAfter": None if after is None else size_of(after),
        "phase": change.phase,
        "reason": change.reason,
        "message": change.message,
        "requested": change.requested,
        "requestedAt": moment(change.requested_s),
        "finishedAt": moment(change.finished_s),
        "warm": change.warm,
        "rebalancer": change.rebalancer or None,
        "expectedBenefitSeconds": change.benefit_s,
        "estimatedCostSeconds": change.estimated_cost_s,
        "saveSeconds": change.save_s,
        "loadSeconds": change.load_s,
        "downtimeSeconds": change.downtime_s,
        "step": change.step,
        "stepAfter": change.step_after,
        "stepsLost": change.steps_lost,
    }


def only_mover(before: Workers, after: Workers) -> int | None:
    """The ordinal of the one elastic worker that moved, where the size stayed. None: several moved, or none did."""
    moved = [worker for worker in before if worker not in after and worker.role is Role.WORKER]
    return moved[0].ordinal if len(moved) == 1 and len(before) == len(after) else None
