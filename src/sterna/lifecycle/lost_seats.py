"""Seats that a job loses with a node, or to a kubelet: which workers train on, and how the job stands afterwards. Pure.

Which seats are lost is the engine's observation. A job goes on where the workers that are left make up a size that it
may have; otherwise it lets go of everything, and is placed anew as a whole. Either way it is no failure, and
does not count against `backoffLimit`; a gang that loses its nodes again and again waits longer each time.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sterna.lifecycle.counters import holding, restart_s
from sterna.lifecycle.gang_roles import Place, fixed_places, size_of
from sterna.lifecycle.job_state import JobState
from sterna.lifecycle.retry import failures_now, loss_pause_s
from sterna.model.jobs import JobSpec, Worker
from sterna.model.phases import Trigger, after
from sterna.placement.shrinking import is_elastic, shrunk

Workers = tuple[Worker, ...]

NODE_LOST = "NodeLost"  # the reason of a loss: the node is gone, or believed to be


class Loss(NamedTuple):
    """Why a seat cannot be kept."""

    worker: Worker
    reason: str
    message: str
    refused: bool = False  # by a kubelet: the next try waits a while


def who_goes_on(
    spec: JobSpec, held: Workers, lost: Collection[Worker], *, needed: Collection[Place] = frozenset()
) -> Workers:
    """Those of `held` that train on without `lost`; empty: none does, and the job begins anew as a whole.

    `needed` are the places without which the others cannot train on, beside the fixed roles. What is left is cut down
    to a size on the job's grid: of a group of tensor-parallel ranks that lacks one, the others train nothing. That its
    owner lowered the maximum meanwhile is for the next decision.
    """
    left = tuple(worker for worker in held if worker not in lost)
    if len(left) == len(held):
        return held
    fixed = {worker[:2] for worker in left if not is_elastic(worker)}
    if spec.restarts_on_resize or fixed != fixed_places(spec.fixed) or any(worker[:2] in needed for worker in lost):
        return ()
    size = len(left) - len(fixed)
    if size < spec.workers_min:
        return ()
    return shrunk(spec, left, size - (size - spec.workers_min) % spec.workers_step)


def after_loss(state: JobState, spec: JobSpec, kept: Workers, losses: Sequence[Loss], now_s: float) -> dict[str, Any]:
    """What changes about a job that has lost seats and keeps `kept`, beside what it holds.

    A job that keeps nothing comes back as soon as there is room, so its time in the seat goes on: a node that breaks is
    neither a decision against the job nor a new start, and must not cost it its turn. If the next decision has nothing
    for it, that is a preemption, and ends its time there.
    """
    values = holding(state, spec, kept, now_s, restart_s=restart_s(state.progress), comes_back=True)
    first = losses[0]
    values |= {"reason": first.reason, "message": first.message}
    if not kept:
        values |= {"phase": after(state.phase, Trigger.RESIZED), "restarts": state.restarts + 1}
        if any(loss.reason == NODE_LOST for loss in losses):
            values |= _pause(state, now_s)
    return values


def _pause(state: JobState, now_s: float) -> dict[str, Any]:
    count = failures_now(state.losses, state.lost_s, now_s)
    pause_s = loss_pause_s(count)
    return {"losses": count, "lost_s": now_s, **({"retry_s": now_s + pause_s} if pause_s else {})}


def loss_in_words(message: str, *, kept: Workers, held: Workers) -> str:
    """For the event that tells of it; `message` is that of the first loss."""
    return f"{message}; {size_of(kept)} of {size_of(held)} workers are left"
