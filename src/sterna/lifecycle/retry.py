"""When a failure is answered by another try, and how long that waits. The same rules in every engine. Pure."""

from sterna.model.workload import RETRIED_CODES, RestartPolicy

BACK_OFF_FIRST_S = 1.0
BACK_OFF_MAX_S = 300.0
FORGIVEN_AFTER_S = 600.0  # a job that trained so long since its last failure begins to count anew
LOSS_BACK_OFF_FIRST_S = 10.0  # after the second loss in a row; a single one is answered at once


def back_off_s(failures: int) -> float:
    """How long to wait after so many failures."""
    return min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2.0 ** min(failures - 1, 20))


def failures_now(failures: int, failed_s: float | None, now_s: float) -> int:
    """How many there are with the one that has just been seen; `failed_s` is when the one before it was.

    Losses of nodes that restart a gang are counted in the same way, and apart from failures.
    """
    forgiven = failed_s is not None and now_s - failed_s >= FORGIVEN_AFTER_S
    return 1 if forgiven else failures + 1


def loss_pause_s(losses: int) -> float:
    """How long a gang waits that lost its nodes so often in a row: not at all the first time, then longer each time.

    Whatever is wrong with the nodes, a gang that has just started has little to lose but the cost of starting again.
    """
    return 0.0 if losses < 2 else min(BACK_OFF_MAX_S, LOSS_BACK_OFF_FIRST_S * 2.0 ** min(losses - 2, 20))


def is_tried_again(policy: RestartPolicy, code: int | None) -> bool:
    """`code` as a shell tells it, 128 and the number for a signal. None: it is not known how it ended."""
    if policy is RestartPolicy.EXIT_CODE:
        return code is None or code in RETRIED_CODES
    return policy is not RestartPolicy.NEVER
