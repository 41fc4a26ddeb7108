"""What the ends of pods mean for their job. Pure functions.

The rules are every engine's (`lifecycle/outcome.py`); here is which pods ended, and which come back with them: a pod
comes back alone where the others can train on without it, and with its whole gang where they cannot. Kubelets restart
containers in place under `OnFailure` and `Always`; of those nothing but the number counts. A pod that a kubelet did not
let in, or threw out, is no failure: its seat is given up (`lost_seats.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.observed_pods import End, EndKind, Seen
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.lifecycle.gang_roles import Place, carriers
from sterna.lifecycle.outcome import Failure, Finish, TryAgain, another_try, final_failure, success, too_late
from sterna.model.phases import Phase
from sterna.model.workload import RestartPolicy


class Restart(NamedTuple):
    """Pods ended that should not have: they come back, after a while."""

    whole: bool  # the others stop as well, and all begin anew
    counted: TryAgain | None  # as a failure. None: it is none
    reason: str
    message: str


def verdict(look: Look, fresh: Sequence[Seen], now_s: float) -> Finish | Restart | None:
    """What is to become of the job. `fresh` are pods in their seats whose ends are not answered yet."""
    return (
        success(look.workload, look.gang, completed(look))
        or too_late(look.workload, look.standing.active_s, now_s)
        or _too_often_in_place(look)
        or _answer(look, fresh, now_s)
    )


def completed(look: Look) -> frozenset[Place]:
    """Places of pods that ended well. One that was told to stop counts if its last message says it had finished."""
    return look.done | {
        seen.place
        for seen in (*look.pods, *look.vanished)
        if seen.place is not None and _ended_well(look, seen) and seen.policy is not RestartPolicy.ALWAYS
    }


def who(seen: Seen) -> str:
    return f"pod {seen.name} on {seen.node or 'no node'}"


def _ended_well(look: Look, seen: Seen) -> bool:
    end = seen.end
    if end is None or end.kind is not EndKind.COMPLETED:
        return False
    return look.is_seated(seen) or seen.terminating  # of the latter only a last message makes a completed end


def _too_often_in_place(look: Look) -> Finish | None:
    limit = look.workload.run_policy.backoff_limit
    if limit is None:
        return None
    in_place = (RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS)
    restarts = sum(seen.restarts for seen in look.current.values() if seen.policy in in_place and not seen.over)
    if restarts < max(1, limit):  # limits of 0 and 1 both end the job at the first restart
        return None
    message = f"its containers were restarted {restarts} times; backoffLimit is {limit}"
    return Finish(Phase.FAILED, "BackoffLimitExceeded", message)


def _answer(look: Look, fresh: Sequence[Seen], now_s: float) -> Finish | Restart | None:
    ends = [(seen, seen.end) for seen in fresh if seen.end is not None]
    failed = [(seen, end) for seen, end in ends if end.kind is EndKind.FAILED]
    if (final := final_failure([_failure(seen, end) for seen, end in failed])) is not None:
        return final
    stopped = [(seen, end) for seen, end in ends if end.kind is EndKind.STOPPED and not seen.terminating]
    if not failed and not stopped:
        return None
    whole = _takes_all_along(look, [seen for seen, _ in (*failed, *stopped)])
    if not failed and _somebody_was_told_to_stop(look):
        return Restart(whole, None, "StoppedTogether", f"{who(stopped[0][0])} stopped together with another one")
    if failed:
        message = _failure(*failed[0]).message
    else:
        message = f"{who(stopped[0][0])} stopped before it was through, and was not told to"
    standing = look.standing
    again = another_try(
        look.workload, failures=standing.failures, failed_s=standing.failed_s, now_s=now_s, message=message
    )
    return again if isinstance(again, Finish) else Restart(whole, again, "WorkerFailed", message)


def _failure(seen: Seen, end: End) -> Failure:
    code = end.code if end.code is not None else _UNKNOWN
    return Failure(seen.policy, code, "out of memory" in end.message, f"{who(seen)}: {end.message}")


_UNKNOWN = -1  # a pod that failed with an unknown exit code: users of `ExitCode` know it as final


def left_alone(look: Look) -> Restart | None:
    """Was a pod taken away without which the others cannot train on? Asked once losses are counted."""
    missing = sorted(carriers(look.workload, look.standing.assigned) - look.done)
    for place in missing:
        seen = look.current.get(place)
        if seen is not None and seen.terminating:
            return Restart(True, None, "PodDeleted", f"{who(seen)} was deleted")
        if seen is None and look.had_begun:
            return Restart(True, None, "PodDeleted", f"the pod of {place[0]} {place[1]} is gone")
    return None


def _somebody_was_told_to_stop(look: Look) -> bool:
    """Ranks agree to stop together, so a pod that is told to stop makes others stop as well."""
    return any(place not in look.current or look.current[place].terminating for place in look.seats)


def _takes_all_along(look: Look, ended: Sequence[Seen]) -> bool:
    """Can the others not train on without them?"""
    needed = carriers(look.workload, look.standing.assigned)
    return any(seen.place in needed for seen in ended)


def is_spent(end: End | None) -> bool:
    """Has it ended, and is to be started again?"""
    return end is not None and end.kind is not EndKind.COMPLETED
