"""What the ends of a job's workers mean for the job: success, failure, or another try.

The success of the leader is the job's (or that of all workers, where the manifest says so), and is looked for before
failures. A failure is answered by the restart policy of its role and by `backoffLimit`. Which ends there are, and which
workers take the others along when they come back, is for the engine to say.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sterna.lifecycle.gang_roles import Place, leader_of
from sterna.lifecycle.retry import back_off_s, failures_now, is_tried_again
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import RestartPolicy, Success, Workload


class Finish(NamedTuple):
    """The job is over."""

    phase: Phase
    reason: str
    message: str


class Failure(NamedTuple):
    """A worker failed, and that has not been answered yet."""

    policy: RestartPolicy
    code: int | None  # as a shell tells it: 128 and the number for a signal. None: it cannot be told
    out_of_memory: bool
    message: str  # which worker, and how it ended


class TryAgain(NamedTuple):
    """The job is not over: what failed is started again after a while."""

    failures: int  # counted against backoffLimit, with this one
    after_s: float


def success(workload: Workload, members: Collection[Worker], completed: Collection[Place]) -> Finish | None:
    """None: not yet. `members` make up the gang that trains, `completed` are the workers that ended well."""
    if not completed:
        return None
    leader = leader_of(workload, members)
    if workload.success is Success.LEADER and leader is not None:
        if leader in completed:
            return Finish(Phase.SUCCEEDED, "Completed", f"{leader[0]} {leader[1]} ended with exit code 0")
        if leader[0] is not Role.WORKER:
            return None  # a chief decides, even when all workers are through
    workers = {worker[:2] for worker in members if worker.role is Role.WORKER}
    if workers and workers <= set(completed):
        return Finish(Phase.SUCCEEDED, "Completed", "all workers ended with exit code 0")
    return None


def deadline_s(workload: Workload, active_since_s: float | None) -> float | None:
    """When the job's time is over. None: never, or it has not begun.

    A job is active from its start on, and anew after a suspension, as Kubernetes' own Job has it.
    """
    limit_s = workload.run_policy.active_deadline_s
    return None if limit_s is None or active_since_s is None else active_since_s + limit_s


def too_late(workload: Workload, active_since_s: float | None, now_s: float) -> Finish | None:
    until_s, limit_s = deadline_s(workload, active_since_s), workload.run_policy.active_deadline_s
    if until_s is None or now_s < until_s:
        return None
    message = f"it was active for longer than activeDeadlineSeconds ({limit_s:g})"
    return Finish(Phase.FAILED, "DeadlineExceeded", message)


def final_failure(failures: Sequence[Failure]) -> Finish | None:
    """The first failure that its restart policy does not answer by another try."""
    for failure in failures:
        if not is_tried_again(failure.policy, failure.code):
            return Finish(Phase.FAILED, "OutOfMemory" if failure.out_of_memory else "WorkerFailed", failure.message)
    return None


def another_try(
    workload: Workload, *, failures: int, failed_s: float | None, now_s: float, message: str
) -> Finish | TryAgain:
    """What one more failure leads to; `failures` and `failed_s` are how many there were, and when the last one was."""
    count, limit = failures_now(failures, failed_s, now_s), workload.run_policy.backoff_limit
    if limit is not None and count > limit:
        return Finish(Phase.FAILED, "BackoffLimitExceeded", f"{message}; backoffLimit is {limit}")
    return TryAgain(count, back_off_s(count))
