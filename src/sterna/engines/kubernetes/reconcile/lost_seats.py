"""Seats that a job cannot keep: their node is gone or does not answer, took the pod away, or did not let it in. Pure.

Here is which seats those are; which workers train on without them is every engine's rule (`lifecycle/lost_seats.py`).
"""

from dataclasses import replace

from sterna.engines.kubernetes.reconcile.changes import restart_opened
from sterna.engines.kubernetes.reconcile.observed_pods import EndKind
from sterna.engines.kubernetes.reconcile.pod_ends import who
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Standing
from sterna.lifecycle.gang_roles import carriers, fixed_places, is_whole
from sterna.lifecycle.lost_seats import NODE_LOST, Loss, after_loss, who_goes_on
from sterna.lifecycle.node_refusals import with_refusals
from sterna.lifecycle.retry import back_off_s
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Contract

_AT_ONCE = 2  # refusals in a row after which other nodes are tried without a pause


def seats_left(look: Look, now_s: float) -> Standing:
    """The standing without what is lost; the same object if nothing is."""
    spec, standing = look.view.spec, look.standing
    if spec is None or standing.finished:
        return standing
    losses = [loss for worker in standing.assigned if (loss := _loss_of(look, worker)) is not None]
    if not losses and _lacks_roles(look):
        message = "what it holds are not all the roles that it has"
        losses = [Loss(worker, "SpecChanged", message) for worker in standing.assigned]
    if not losses:
        return standing
    lost = {loss.worker for loss in losses}
    held, needed = standing.assigned, carriers(look.workload, standing.assigned)
    kept = who_goes_on(spec, held, lost, needed=needed)
    if not kept:  # where some train on, there is no restart
        first = losses[0]
        standing = restart_opened(standing, why=first.reason, message=first.message, now_s=now_s)
    refusing = {loss.worker.node for loss in losses if loss.refused}
    rejections = standing.rejections + bool(refusing)
    values = {"retry_s": standing.retry_s, **after_loss(standing, spec, kept, losses, now_s)}
    if refusing and rejections > _AT_ONCE:
        values["retry_s"] = now_s + back_off_s(rejections - _AT_ONCE)
    return replace(
        standing,
        **values,
        seats=tuple(seat for seat in standing.seats if seat.worker in kept),
        numbers=(("lost", len(losses)),),
        rejections=rejections,
        refusals=with_refusals(standing.refusals, refusing, now_s),
    )


def _loss_of(look: Look, worker: Worker) -> Loss | None:
    place = worker[:2]
    if place in look.done:
        return None  # it ended well: its place is not needed any more
    if not _is_known(look, worker):
        return Loss(worker, "SpecChanged", f"the job has no {worker.role} {worker.ordinal} any more")
    facts, seen = look.view.nodes.get(worker.node), look.current.get(place)
    if facts is None:
        return Loss(worker, NODE_LOST, f"node {worker.node} is gone")
    if not facts.ready:
        return Loss(worker, NODE_LOST, f"node {worker.node} is not ready")
    if seen is not None and seen.end is not None and seen.end.kind is EndKind.REFUSED:
        return Loss(worker, "KubeletRefused", f"{who(seen)}: {seen.end.message}", refused=True)
    if seen is not None and not seen.terminating:
        return None
    if facts.doubted:
        message = f"node {worker.node} is given nothing new for now, and the pod of {place[0]} {place[1]} is gone"
        return Loss(worker, NODE_LOST, message)
    if facts.unschedulable or facts.drained:
        return Loss(
            worker,
            "NodeDrained",
            f"node {worker.node} takes no newcomers, and the pod of {place[0]} {place[1]} is gone",
        )
    return None


def _is_known(look: Look, worker: Worker) -> bool:
    """Does the job as it is written now have such a worker?"""
    role, ordinal = worker[:2]
    workload = look.workload
    if role is not Role.WORKER:
        return (role, ordinal) in fixed_places(workload.roles)
    if workload.contract is Contract.PARAMETER_SERVER and ordinal >= workload.workers_max:
        return (role, ordinal) in look.current  # its address is on no list any more: what runs may stay, nothing new
    return True


def _lacks_roles(look: Look) -> bool:
    """Are fixed roles missing, and not on their way?"""
    standing, change = look.standing, look.standing.change
    if not standing.seats or is_whole(look.workload, standing.assigned):
        return False
    return change is None or set(change.after) == set(standing.assigned)
