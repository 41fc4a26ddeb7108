"""How a job is taken in: a new one, one that ended before an operator saw it, one whose standing was lost. Pure.

The truth is in the cluster, so a job that comes without a standing but with pods or with an end in its conditions is
not begun anew: it is taken as it is.
"""

from dataclasses import replace

from sterna.engines.kubernetes.bodies.pod_body import SCHEDULER, keeps_checkpoints
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.observed_pods import Seen, seen_of
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.lifecycle.gang_roles import fixed_places, seat_order, size_of
from sterna.model.conditions import ConditionType, ended, is_true
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, Workload


def begun(view: JobView, workload: Workload, now_s: float) -> tuple[Standing, tuple[JobEvent, ...]]:
    """Of a job that has no standing yet."""
    note = (JobEvent(Reason.STATUS_UNREADABLE, view.status.note, warning=True),) if view.status.note else ()
    fresh = replace(view.standing, enqueued_s=now_s, as_of_s=now_s)
    if ended(view.status.conditions):
        well = is_true(view.status.conditions, ConditionType.SUCCEEDED)
        phase = Phase.SUCCEEDED if well else Phase.FAILED
        at_s = view.status.completed_s if view.status.completed_s is not None else now_s
        return replace(fresh, phase=phase, reason="Completed" if well else "Failed", finished_s=at_s), note
    if (found := _rebuilt(view, workload, fresh, now_s)) is not None:
        return found, note
    waits_since_s = min(now_s, view.created_s or now_s)  # includes the time before an operator saw it
    return replace(fresh, waiting_since_s=waits_since_s), (*note, *_warnings(view, workload))


def adopted(look: Look) -> Standing:
    """Seats follow their pods where the cluster's own scheduler chooses the nodes."""
    standing = look.standing
    nodes = {
        (seen.place, seen.slot): seen.node
        for seen in look.pods
        if seen.node and seen.incarnation == standing.incarnation and not seen.terminating
    }
    seats = tuple(
        seat._replace(worker=seat.worker._replace(node=nodes.get((seat.worker[:2], seat.slot), seat.worker.node)))
        for seat in standing.seats
    )
    return standing if seats == standing.seats else replace(standing, seats=seats)


def _rebuilt(view: JobView, workload: Workload, fresh: Standing, now_s: float) -> Standing | None:
    """Seats from the pods that are there, if they make up a job. None: they do not, and are removed."""
    live = [seen for pod in view.pods if _works(seen := seen_of(view, workload, pod))]
    incarnation = max((seen.incarnation for seen in live), default=0)
    gang = [seen for seen in live if seen.incarnation == incarnation]
    seats = tuple(Seat(seen.worker, seen.slot) for seen in gang if seen.worker is not None)
    seats = tuple(sorted(seats, key=lambda seat: seat_order(seat.worker)))
    fixed = {seat.worker[:2] for seat in seats if seat.worker.role is not Role.WORKER}
    size = size_of(seat.worker for seat in seats)
    if fixed != fixed_places(workload.roles) or not workload.workers_min <= size <= workload.workers_max:
        return None
    return replace(
        fresh,
        phase=Phase.RUNNING,
        reason="Adopted",
        message="its pods were found at work",
        seats=seats,
        incarnation=incarnation,
        first_started_s=now_s,
        started_s=now_s,
        active_s=now_s,
    )


def _works(seen: Seen) -> bool:
    return seen.place is not None and bool(seen.node) and not seen.over and not seen.terminating


def _warnings(view: JobView, workload: Workload) -> tuple[JobEvent, ...]:
    """What the owner should know, once: something written is not used, or something is missing."""
    warnings = []
    specs = [(role, view.templates[role].get("spec") or {}) for role in sorted(view.templates)]
    for role, spec in specs:
        if workload.kind != "ElasticJob" and spec.get("restartPolicy"):
            chosen = workload.template(role).restart_policy if _has(workload, role) else ""
            text = f"restartPolicy in the pod template of {role} is not used: that of the replica spec is ({chosen})"
            warnings.append(JobEvent(Reason.POD_RESTART_POLICY, text, warning=True))
        if spec.get("schedulerName") not in (None, "", SCHEDULER, "default-scheduler"):
            text = f"schedulerName in the pod template of {role} is not used: pods are created on the nodes chosen here"
            warnings.append(JobEvent(Reason.POD_SCHEDULER, text, warning=True))
    if workload.contract is Contract.RESTART and not keeps_checkpoints(view):
        text = (
            "there is nowhere to keep checkpoints, so whenever its workers are stopped they begin anew; mount a volume"
            " named checkpoints into the workers, or name a directory in annotation sterna.dev/checkpoint-dir"
        )
        warnings.append(JobEvent(Reason.NO_CHECKPOINTS, text, warning=True))
    return tuple(warnings)


def _has(workload: Workload, role: Role) -> bool:
    return any(template.role is role for template in workload.roles)
