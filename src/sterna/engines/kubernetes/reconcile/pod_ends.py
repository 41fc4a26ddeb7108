"""What the ends of pods mean for their job. Pure functions.

The success of the leader is the job's (or that of all workers, where the manifest says so), and is looked for before
failures. A failure is answered by the restart policy of the role: the job fails, or the pod comes back, alone where
the others can train on without it and with its whole gang where they cannot. Kubelets restart containers in place
under `OnFailure` and `Always`; of those nothing but the number counts. A pod that a kubelet did not let in, or threw
out, failed nobody: its seat is given up (`lost_seats.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.job_seats import Place, carriers, leader_of
from sterna.engines.kubernetes.reconcile.observed_pods import End, EndKind, Seen
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.retrying import back_off_s, failures_now, is_tried_again
from sterna.model.jobs import Role
from sterna.model.lifecycle import Phase
from sterna.model.workload import RestartPolicy, Success


class Finish(NamedTuple):
    """The job is over."""

    phase: Phase
    reason: str
    message: str


class Restart(NamedTuple):
    """Pods ended that should not have: they come back, after a while."""

    whole: bool  # the others stop as well, and all begin anew
    counted: bool  # as a failure
    reason: str
    message: str
    after_s: float = 0.0


def verdict(look: Look, fresh: Sequence[Seen], now_s: float) -> Finish | Restart | None:
    """What is to become of the job. `fresh` are pods in their seats whose ends nobody has answered yet."""
    if (success := _success(look)) is not None:
        return success
    if (late := _too_late(look, now_s)) is not None:
        return late
    if (worn := _too_often_in_place(look)) is not None:
        return worn
    return _answer(look, fresh, now_s)


def completed(look: Look) -> frozenset[Place]:
    """Everybody who ended well. One that was told to stop counts if its last word is that it had finished."""
    return look.done | {
        seen.place
        for seen in (*look.pods, *look.vanished)
        if seen.place is not None and _ended_well(look, seen) and seen.policy is not RestartPolicy.ALWAYS
    }


def deadline_s(look: Look) -> float | None:
    """When the job's time is over. None: never, or it has not begun."""
    limit_s, since_s = look.workload.run_policy.active_deadline_s, look.standing.active_s
    return None if limit_s is None or since_s is None else since_s + limit_s


def who(seen: Seen) -> str:
    return f"pod {seen.name} on {seen.node or 'no node'}"


def _ended_well(look: Look, seen: Seen) -> bool:
    end = seen.end
    if end is None or end.kind is not EndKind.COMPLETED:
        return False
    return look.is_seated(seen) or seen.terminating  # of the latter only a last word makes a completed end


def _success(look: Look) -> Finish | None:
    through = completed(look)
    if not through:
        return None
    held = look.gang
    leader = leader_of(look.workload, held)
    workers = {worker[:2] for worker in held if worker.role is Role.WORKER}
    if look.workload.success is Success.LEADER and leader is not None:
        if leader in through:
            return Finish(Phase.SUCCEEDED, "Completed", f"{leader[0]} {leader[1]} ended with exit code 0")
        if leader[0] is not Role.WORKER:
            return None  # a chief has the last word, even when all workers are through
    if workers and workers <= through:
        return Finish(Phase.SUCCEEDED, "Completed", "all workers ended with exit code 0")
    return None


def _too_late(look: Look, now_s: float) -> Finish | None:
    until_s, limit_s = deadline_s(look), look.workload.run_policy.active_deadline_s
    if until_s is None or now_s < until_s:
        return None
    message = f"it was active for longer than activeDeadlineSeconds ({limit_s:g})"
    return Finish(Phase.FAILED, "DeadlineExceeded", message)


def _too_often_in_place(look: Look) -> Finish | None:
    limit = look.workload.run_policy.backoff_limit
    if limit is None:
        return None
    in_place = (RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS)
    restarts = sum(seen.restarts for seen in look.current.values() if seen.policy in in_place and not seen.over)
    if restarts < max(1, limit):  # a limit of 0 allows none, and so does one of 1: the first is the last
        return None
    message = f"its containers were restarted {restarts} times; backoffLimit is {limit}"
    return Finish(Phase.FAILED, "BackoffLimitExceeded", message)


def _answer(look: Look, fresh: Sequence[Seen], now_s: float) -> Finish | Restart | None:
    ends = [(seen, seen.end) for seen in fresh if seen.end is not None]
    failed = [(seen, end) for seen, end in ends if end.kind is EndKind.FAILED]
    for seen, end in failed:
        if not is_tried_again(seen.policy, end.code if end.code is not None else _UNKNOWN):
            reason = "OutOfMemory" if "out of memory" in end.message else "WorkerFailed"
            return Finish(Phase.FAILED, reason, f"{who(seen)}: {end.message}")
    stopped = [(seen, end) for seen, end in ends if end.kind is EndKind.STOPPED and not seen.terminating]
    if not failed and not stopped:
        return None
    whole = _takes_all_along(look, [seen for seen, _ in (*failed, *stopped)])
    if not failed and _somebody_was_told_to_stop(look):
        return Restart(whole, False, "StoppedTogether", f"{who(stopped[0][0])} stopped together with another one")
    standing, limit = look.standing, look.workload.run_policy.backoff_limit
    failures = failures_now(standing.failures, standing.failed_s, now_s)
    if failed:
        message = f"{who(failed[0][0])}: {failed[0][1].message}"
    else:
        message = f"{who(stopped[0][0])} stopped before it was through, and nobody had told it to"
    if limit is not None and failures > limit:
        return Finish(Phase.FAILED, "BackoffLimitExceeded", f"{message}; backoffLimit is {limit}")
    return Restart(whole, True, "WorkerFailed", message, back_off_s(failures))


_UNKNOWN = -1  # a pod that failed and nobody can say how: users of `ExitCode` know it as final


def left_alone(look: Look) -> Restart | None:
    """Did somebody take a pod away without whom the others cannot train on? Asked once losses are counted."""
    missing = sorted(carriers(look.workload, look.standing.assigned) - look.done)
    for place in missing:
        seen = look.current.get(place)
        if seen is not None and seen.terminating:
            return Restart(True, False, "PodDeleted", f"{who(seen)} was deleted")
        if seen is None and look.had_begun:
            return Restart(True, False, "PodDeleted", f"the pod of {place[0]} {place[1]} is gone")
    return None


def _somebody_was_told_to_stop(look: Look) -> bool:
    """Ranks agree to stop together, so one that is told to takes others along."""
    return any(place not in look.current or look.current[place].terminating for place in look.seats)


def _takes_all_along(look: Look, ended: Sequence[Seen]) -> bool:
    """Can the others not train on without them?"""
    needed = carriers(look.workload, look.standing.assigned)
    return any(seen.place in needed for seen in ended)


def is_spent(end: End | None) -> bool:
    """Has it ended, and is to be started again?"""
    return end is not None and end.kind is not EndKind.COMPLETED
