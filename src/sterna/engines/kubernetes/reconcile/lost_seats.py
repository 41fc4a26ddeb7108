"""Seats that a job cannot keep: their node is gone or does not answer, took the pod away, or did not let it in. Pure.

What is lost is placed anew by the core. Where the others cannot train on without it, the job holds nothing from now on
and comes back as a whole; a job that lost so many that it is below its minimum does the same.
"""

from dataclasses import replace
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.changes import restart_opened
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.observed_pods import EndKind
from sterna.engines.kubernetes.reconcile.pod_ends import who
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.lifecycle import counters
from sterna.lifecycle.gang_roles import carriers, fixed_places, is_whole, size_of
from sterna.lifecycle.retry import back_off_s
from sterna.model.jobs import Role
from sterna.model.phases import Trigger, after
from sterna.model.workload import Contract


class Loss(NamedTuple):
    seat: Seat
    reason: str
    message: str
    refused: bool = False  # by a kubelet: the next try waits a while


def without_lost_seats(view: JobView, now_s: float) -> Standing:
    """The same object if nothing is lost."""
    return view.standing if view.workload is None else seats_left(Look(view, view.workload, view.standing), now_s)


def seats_left(look: Look, now_s: float) -> Standing:
    """The same of a look that has been taken already."""
    spec, standing = look.view.spec, look.standing
    if spec is None or standing.finished:
        return standing
    losses = [loss for seat in standing.seats if (loss := _loss_of(look, seat)) is not None]
    if not losses and _lacks_roles(look):
        message = "what it holds are not all the roles that it has"
        losses = [Loss(seat, "SpecChanged", message) for seat in standing.seats]
    if not losses:
        return standing
    lost = {loss.seat for loss in losses}
    left = tuple(seat for seat in standing.seats if seat not in lost)
    if not _can_go_on(look, lost, left):
        left = ()
    first = losses[0]
    workers = tuple(seat.worker for seat in left)
    if not left:  # those that train on do not even notice
        standing = restart_opened(standing, why=first.reason, message=first.message, now_s=now_s)
        standing = replace(standing, phase=after(standing.phase, Trigger.RESIZED), restarts=standing.restarts + 1)
    rejections = standing.rejections + any(loss.refused for loss in losses)
    return replace(
        standing,
        **counters.holding(standing, spec, workers, now_s, restart_s=restart_s(standing), comes_back=True),
        seats=left,
        reason=first.reason,
        message=first.message,
        numbers=(("lost", len(losses)),),
        rejections=rejections,
        retry_s=now_s + back_off_s(rejections) if any(loss.refused for loss in losses) else standing.retry_s,
    )


def restart_s(standing: Standing) -> float:
    """What a start costs, as far as this job ever showed it."""
    return standing.progress.restart_s or 0.0 if standing.progress is not None else 0.0


def _loss_of(look: Look, seat: Seat) -> Loss | None:
    worker = seat.worker
    place = worker[:2]
    if place in look.done:
        return None  # it is through; nobody needs its place any more
    if not _is_known(look, seat):
        return Loss(seat, "SpecChanged", f"the job has no {worker.role} {worker.ordinal} any more")
    facts, seen = look.view.nodes.get(worker.node), look.current.get(place)
    if facts is None:
        return Loss(seat, "NodeLost", f"node {worker.node} is gone")
    if not facts.ready:
        return Loss(seat, "NodeLost", f"node {worker.node} is not ready")
    if seen is not None and seen.end is not None and seen.end.kind is EndKind.REFUSED:
        return Loss(seat, "KubeletRefused", f"{who(seen)}: {seen.end.message}", refused=True)
    closed = facts.unschedulable or facts.drained
    if closed and (seen is None or seen.terminating):
        return Loss(
            seat, "NodeDrained", f"node {worker.node} takes no newcomers, and the pod of {place[0]} {place[1]} is gone"
        )
    return None


def _is_known(look: Look, seat: Seat) -> bool:
    """Does the job as it is written now have such a worker?"""
    role, ordinal = seat.worker[:2]
    workload = look.workload
    if role is not Role.WORKER:
        return (role, ordinal) in fixed_places(workload)
    if workload.contract is Contract.PARAMETER_SERVER and ordinal >= workload.workers_max:
        return (role, ordinal) in look.current  # its address is on no list any more: what runs may stay, nothing new
    return True


def _lacks_roles(look: Look) -> bool:
    """Are fixed roles missing, and not on their way?"""
    standing, change = look.standing, look.standing.change
    if not standing.seats or is_whole(look.workload, standing.assigned):
        return False
    return change is None or set(change.after) == set(standing.assigned)


def _can_go_on(look: Look, lost: set[Seat], left: tuple[Seat, ...]) -> bool:
    workers = tuple(seat.worker for seat in left)
    if {seat.worker[:2] for seat in lost} & carriers(look.workload, look.standing.assigned):
        return False
    fixed = {worker[:2] for worker in workers if worker.role is not Role.WORKER}
    return fixed == fixed_places(look.workload) and size_of(workers) >= look.workload.workers_min
